"""Moved to `wasm_kernel.model.names`; here until nobody imports it from here."""

from wasm_kernel.model.names import Names, Paths, fitted, key_of, safe_name, text_of

__all__ = ["Names", "Paths", "fitted", "key_of", "safe_name", "text_of"]
