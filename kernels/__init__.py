"""Replacements in C for numeric functions of the runtime; `python -m kernels` makes `numeric-kernels.wasm` of them."""
