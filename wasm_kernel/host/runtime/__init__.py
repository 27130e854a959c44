"""A live guest: wasmtime, the layer before WASI, memory, and the thread that runs it."""
