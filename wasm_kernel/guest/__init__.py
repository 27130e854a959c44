"""What runs inside WebAssembly. The image build copies this folder into the guest as the package `wasm_guest`.

It imports nothing of ours from outside itself. The host imports one file of it, `wire`, and no other.
"""
