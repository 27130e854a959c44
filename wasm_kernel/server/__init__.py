"""The Jupyter Server extension: sessions' files over HTTP, with the server's authentication. Imports no wasmtime."""
