"""Which images of earlier versions can be used: whose parts are there, and whose guest this host understands."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel import NotAllowed, OlderImage
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.image import cache, image, older_images
from wasm_kernel.host.image.cache import Entry
from wasm_kernel.host.runtime.instance import ADDED_EXPORTS

OLDER = Entry("base", "0123456789abcdef0123")
MODULE = "the module of then"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(entry: Entry, **facts: Any) -> Entry:
    entry.build(lambda folder: facts)
    return entry


@pytest.fixture
def older(empty: Path) -> dict[str, Entry]:
    """All of an older image."""
    made = {kind: put(Entry(kind, f"{kind} of then")) for kind in ("runtime", "library", "site")}
    facts = {"made_of": {kind: entry.key for kind, entry in made.items()}, "module": MODULE, "protocol": wire.PROTOCOL}
    return {**made, "base": put(OLDER, **facts), "code": put(Entry("code", "c1"), **code_facts())}


def code_facts(**other: Any) -> dict[str, Any]:
    return {"module": MODULE, "settings": image.machine_settings(), "metered": False, **other}


def test_all_parts_are_found(older: dict[str, Entry]) -> None:
    which = older_images.find(OLDER.key)
    assert older_images.problem_with(which) == ""
    assert {kind: getattr(which, kind) for kind in older} == older
    assert (which.filter, which.module) == (image.parts().filter, MODULE), "the interposer is the host's own"
    assert older_images.find(image.parts().base.key) == image.parts()


def test_another_build_is_another_image(older: dict[str, Entry]) -> None:
    (older["base"].path / "digests.json").write_text(json.dumps({"base.mem": "a" * 64}))
    assert image.key_of(older["base"]) == f"{OLDER.key}-{'a' * 12}"
    for key in (OLDER.key, f"{OLDER.key}-{'a' * 12}"):
        assert older_images.find(key).base == OLDER
    with pytest.raises(OlderImage, match="another build of the same image.*the one here is aaaaaaaaaaaa"):
        older_images.find(f"{OLDER.key}-{'b' * 12}")


@pytest.mark.parametrize("gone", ["library", "site"])
def test_a_part_is_gone(older: dict[str, Entry], gone: str) -> None:
    cache.remove(older[gone])
    assert f"parts are gone: {gone}" in older_images.problem_with(older_images.find(OLDER.key))


def test_code_for_other_machines_is_not_run(older: dict[str, Entry]) -> None:
    cache.remove(older["code"])
    for number, other in enumerate(({"module": "x"}, {"settings": ["another wasmtime"]}, {"metered": True})):
        put(Entry("code", f"c{number}"), **code_facts(**other))
    which = older_images.find(OLDER.key)
    assert f"wasm-kernel image build --image {OLDER.key}`" in older_images.problem_with(which)
    assert which.code == image.code_entry(MODULE, image.code_settings(), metered=False), "that is what would be built"
    assert older_images.problem_with(which, metered=True) == ""


def test_the_newest_code_is_taken(older: dict[str, Entry]) -> None:
    newer = put(Entry("code", "a newer one"), **code_facts())
    assert older_images.find(OLDER.key).code == newer


@pytest.mark.parametrize("spoken", [wire.OLDEST_PROTOCOL - 1, wire.PROTOCOL + 1])
def test_another_protocol(older: dict[str, Entry], spoken: int) -> None:
    put(OLDER, **{**(OLDER.manifest() or {}), "protocol": spoken})
    with pytest.raises(OlderImage, match=f"does not understand .protocol {spoken}"):
        older_images._check(older_images.find(OLDER.key), metered=False)


@pytest.mark.parametrize("key", ["", "..", "../base/0123456789abcdef0123", "0123456789ABCDEF0123", "x" * 20])
def test_what_is_no_key_is_no_path(older: dict[str, Entry], key: str) -> None:
    with pytest.raises(OlderImage, match="no image"):
        older_images.find(key)


def test_an_image_that_does_not_say_what_it_is_made_of(empty: Path) -> None:
    """Only those of the first days are known by their keys; any other could be run with the wrong code."""
    guest = {"wire.py": b"1"}

    def make(folder: Path) -> dict[str, Any]:
        (folder / "kernel" / image.GUEST_PACKAGE).mkdir(parents=True)
        (folder / "kernel" / image.GUEST_PACKAGE / "wire.py").write_bytes(guest["wire.py"])
        return {}

    first = older_images._FIRST
    known, unknown = (image.base_entry(lib, first["site"], guest) for lib in (first["library"], "another"))
    known.build(make)
    unknown.build(make)
    assert older_images.find(known.key).library.key == first["library"]
    with pytest.raises(OlderImage, match="does not say what it is made of"):
        older_images.find(unknown.key)


def test_the_administrator_allows_one_image_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(key: str) -> None:
        if key != image.parts().base.key:
            raise NotAllowed("another one is pinned")

    monkeypatch.setattr(administrator, "check_image", check)
    with pytest.raises(OlderImage, match="administrator"):
        older_images.load(OLDER.key)


_SPOKEN = {1: "92066e9b8243de99"}


def test_a_change_of_the_protocol_is_noticed() -> None:
    """What host and guest rely on. If it changes, decide whether guests of earlier images still work.

    If they do, write the new value here; if they do not, raise `wire.PROTOCOL`, and `OLDEST_PROTOCOL` if this host
    cannot serve them.
    """
    fields = {kind.__name__: {name: of.__name__ for name, of in named.items()} for kind, named in wire._FIELDS.items()}
    answers = [getattr(wire, name).decode() for name in sorted(dir(wire)) if name.startswith("ANSWER_")]
    spoken = [fields, answers, sorted(driver_requests()), list(image.MOUNTS), list(ADDED_EXPORTS)]
    assert _SPOKEN[wire.PROTOCOL] == hashlib.sha256(json.dumps(spoken).encode()).hexdigest()[:16], spoken


def driver_requests() -> set[str]:
    """The names of the requests that the guest takes; its code runs nowhere but there."""
    text = (Path(wire.__file__).parent / "driver.py").read_text()
    table = text.partition("_REQUESTS = {")[2].partition("}")[0]
    return {line.split('"')[1] for line in table.splitlines() if '"' in line}
