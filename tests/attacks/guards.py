"""Switching guards off, in tests only: what lets an attack through shows that its test would notice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from wasm_kernel.host.image import image
from wasm_kernel.host.runtime import interposer
from wasm_kernel.host.runtime.engine import Engine, Module

NEVER = b"\x01never"


@cache
def compiled(engine: Engine, text: str) -> Module:
    """A module from its text, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "filter.cwasm"
        path.write_bytes(engine.compile(text))
        return engine.load(path)


@contextmanager
def filter_replaced(text: str) -> Iterator[None]:
    """Guests made meanwhile get this filter."""
    real = image.Image.modules

    def modules(self: image.Image, *, metered: bool = False) -> tuple[Engine, dict[str, Module]]:
        engine, found = real(self, metered=metered)
        return engine, {**found, "filter": compiled(engine, text)}

    with mock.patch.object(image.Image, "modules", modules):
        yield


def without(text: str, guard: str, instead: str) -> str:
    """A filter's text with one expression replaced; it must be there."""
    assert guard in text, f"the filter no longer has {guard!r}: adapt the test"
    return text.replace(guard, instead)


def may_climb(text: str) -> str:
    """A filter that lets link targets leave their folder."""
    return without(text, "(call $climbs (local.get $target) (local.get $len))", "(i32.const 0)")


@contextmanager
def hidden_name_shown() -> Iterator[None]:
    """No name is hidden, and links may point anywhere."""
    with filter_replaced(may_climb(interposer.filter_text(hidden=(NEVER,)))):
        yield


@contextmanager
def links_may_climb() -> Iterator[None]:
    """Links may point out of their folder."""
    with filter_replaced(may_climb(interposer.filter_text())):
        yield


@contextmanager
def by_scene() -> Iterator[None]:
    """The scene itself leaves the guard out: it is a limit in its policy."""
    yield


@contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes replaced for a while."""
    patches = [mock.patch.object(where, name, value) for where, name, value in changes]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()
