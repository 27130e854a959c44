"""`wasm-kernel mcp`: sessions for agents, by the Model Context Protocol."""
