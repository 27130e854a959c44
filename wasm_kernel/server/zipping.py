"""Moved to `wasm_kernel.sessions.zipping`; here until nobody imports it from here."""

from wasm_kernel.sessions.zipping import Bounds, TooMuch, check, zip_blocks

__all__ = ["Bounds", "TooMuch", "check", "zip_blocks"]
