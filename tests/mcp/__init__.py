"""Tests of `wasm_kernel.mcp`: the SDK's own client drives the server."""
