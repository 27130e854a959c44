"""Calls that no interpreter makes: from a guest whose memory and calls are the attacker's."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks import guards, raw_guest
from tests.attacks.raw_guest import ALL_RIGHTS, APP, BUFFER, IOVEC, OUT, PATH, PATH2, SIZE, RawGuest
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime import interposer
from wasm_kernel.host.runtime.engine import WASI, Trapped

_SECRET = b"sesame"
_NAME = interposer.HIDDEN[0]
_ENOENT = 44
_EFAULT = 21
_EFBIG = 22


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a hidden file, a file and a folder."""
    folder = tmp_path / "workspace"
    (folder / "sub").mkdir(parents=True)
    (folder / _NAME.decode()).write_bytes(_SECRET)
    (folder / "own.txt").write_bytes(b"mine")
    return folder


@pytest.fixture
def make(workspace: Path) -> Iterator[Callable[..., RawGuest]]:
    """Raw guests over it."""
    made: list[RawGuest] = []

    def make(hidden: tuple[bytes, ...] = interposer.HIDDEN) -> RawGuest:
        made.append(RawGuest(workspace, hidden))
        return made[-1]

    yield make
    for guest in made:
        guest.close()


# ---- the hidden name in every call that takes one. H is its path, O another; each with its length

COUNTED_CALLS: dict[str, tuple[str, tuple[object, ...]]] = {
    "open": ("path_open", (APP, 0, "H", 0, ALL_RIGHTS, ALL_RIGHTS, 0, OUT)),
    "stat": ("path_filestat_get", (APP, 0, "H", BUFFER)),
    "touch": ("path_filestat_set_times", (APP, 0, "H", 0, 0, 5)),
    "make a folder": ("path_create_directory", (APP, "H")),
    "remove a folder": ("path_remove_directory", (APP, "H")),
    "remove": ("path_unlink_file", (APP, "H")),
    "read a link": ("path_readlink", (APP, "H", BUFFER, 100, OUT)),
    "move away": ("path_rename", (APP, "H", APP, "O")),
    "move onto it": ("path_rename", (APP, "O", APP, "H")),
    "link to it": ("path_link", (APP, 0, "H", APP, "N")),
    "link by its name": ("path_link", (APP, 0, "O", APP, "H")),
    "symbolic link to it": ("path_symlink", ("H", APP, "N")),
    "symbolic link by its name": ("path_symlink", ("O", APP, "H")),
}
_SPELT = {"H": (PATH, b"sub/.././" + _NAME), "O": (PATH2, b"own.txt"), "N": (PATH2, b"new")}


def _call(guest: RawGuest, name: str, arguments: tuple[object, ...]) -> int:
    plain: list[int] = []
    for item in arguments:
        if isinstance(item, str):
            at, path = _SPELT[item]
            plain += [at, guest.put(at, path)]
        else:
            plain.append(int(str(item)))
    return guest.call[name](*plain)


@pytest.mark.parametrize("attempt", COUNTED_CALLS)
def test_no_call_takes_the_hidden_name(attempt: str, make: Callable[..., RawGuest], workspace: Path) -> None:
    assert _call(make(), *COUNTED_CALLS[attempt]) == _ENOENT
    assert sorted(p.name for p in workspace.iterdir()) == [_NAME.decode(), "own.txt", "sub"]
    assert (workspace / _NAME.decode()).read_bytes() == _SECRET


@pytest.mark.parametrize("attempt", COUNTED_CALLS)
def test_the_call_takes_it_without_the_guard(attempt: str, make: Callable[..., RawGuest]) -> None:
    assert _call(make((guards.NEVER,)), *COUNTED_CALLS[attempt]) != _ENOENT


# ---- listings


def _listed(guest: RawGuest, length: int) -> bytes:
    """All bytes that listing the workspace puts into a buffer of this length, entry after entry."""
    found, cookie = b"", 0
    while True:
        assert guest.call["fd_readdir"](APP, BUFFER, length, cookie, OUT) == 0
        used = guest.number(OUT)
        found += guest.get(BUFFER, used) + b"|"
        entry = guest.get(BUFFER, 24)
        if used < 24 or len(found) > 100_000:
            return found
        cookie = struct.unpack("<Q", entry[:8])[0]


def test_listings_of_every_length_hold_no_hidden_name(make: Callable[..., RawGuest], workspace: Path) -> None:
    (workspace / ".METADATA.JSON.tmp").write_bytes(_SECRET)
    guest = make()
    for length in range(24, 160):
        found = _listed(guest, length)
        assert b".met" not in found.lower(), f"at length {length}"
    assert b"metadata.json" in _listed(make((guards.NEVER,)), 120).lower()


def test_cookies_of_every_value_show_no_hidden_name(make: Callable[..., RawGuest]) -> None:
    guest = make()
    for cookie in [*range(20), 2**31, 2**32 - 1, 2**63, 2**64 - 1]:
        signed = cookie - 2**64 if cookie >= 2**63 else cookie
        assert guest.call["fd_readdir"](APP, BUFFER, 4096, signed, OUT) == 0
        assert b".met" not in guest.get(BUFFER, guest.number(OUT))


# ---- what the host opens again after a crash


def test_the_journal_has_the_path_that_was_checked(make: Callable[..., RawGuest]) -> None:
    """The new descriptor's number is written over the path's last letter: .metadata.jsoX, opened as 110, 'n'."""
    guest = make()
    fd = guest.open(_NAME[:-1] + b"X", oflags=1)[1]
    while fd < ord("n") - 1:
        status, fd = guest.open(b"own.txt")
        assert status == 0
    last = PATH + 3 + len(_NAME) - 1  # aligned
    status, _ = guest.open(_NAME[:-1] + b"X", at=PATH + 3, out=last)
    assert status == 0
    after = make()
    after.interposer.reopen(guest.interposer.descriptors())
    assert after.read(ord("n")) != _SECRET


# ---- pointers


def test_pointers_out_of_memory_are_faults(make: Callable[..., RawGuest]) -> None:
    guest = make()
    for at, length in ((SIZE - 3, 10), (SIZE, 1), (-1, 5), (PATH, -1), (-16, 32)):
        for name, before, after in (
            ("path_open", (APP, 0), (0, ALL_RIGHTS, ALL_RIGHTS, 0, OUT)),
            ("path_filestat_get", (APP, 0), (BUFFER,)),
            ("path_create_directory", (APP,), ()),
            ("path_unlink_file", (APP,), ()),
        ):
            assert guest.call[name](*before, at, length, *after) in (_EFAULT, 37)
    guest.put(IOVEC, struct.pack("<II", SIZE - 4, 64))
    fd = guest.open(b"own.txt")[1]
    for name in ("fd_write", "fd_read"):
        assert guest.call[name](fd, IOVEC, 1, OUT) == _EFAULT
        assert guest.call[name](fd, SIZE - 4, 1, OUT) == _EFAULT
        assert guest.call[name](fd, IOVEC, 2**29, OUT) == _EFAULT


def test_noise_reaches_nothing(make: Callable[..., RawGuest], workspace: Path) -> None:
    """Random calls with random and with nearly sensible arguments: each ends with an errno or a trap."""
    guest, noise = make(), random.Random(7)
    guest.put(PATH, b"sub/../" + _NAME)
    guest.put(IOVEC, struct.pack("<II", BUFFER, 100))
    likely = [0, 1, 2, APP, 4, 5, OUT, PATH, PATH + 7, len(_NAME), IOVEC, BUFFER, SIZE - 1, SIZE, -1, 2**31 - 1]
    calls = [name for name in interposer.FILTERED if name not in ("fd_close", "poll_oneoff", "path_unlink_file")]
    for _ in range(4000):
        name = noise.choice(calls)
        arguments = [noise.choice([*likely, noise.getrandbits(31)]) for _ in interposer.FILTERED[name]]
        try:
            assert 0 <= guest.call[name](*arguments) < 80
        except Trapped as trap:
            assert trap.__cause__ is None  # no callback of ours failed
    assert (workspace / _NAME.decode()).read_bytes() == _SECRET
    assert _SECRET not in guest.get(0, SIZE)


def test_a_path_does_not_end_at_a_zero_byte(make: Callable[..., RawGuest]) -> None:
    for path in (b"own.txt\0" + _NAME, _NAME + b"\0", b"\0" + _NAME):
        status, _ = make().open(path)
        assert status != 0


def test_only_the_first_buffer_of_a_write_is_taken(make: Callable[..., RawGuest], workspace: Path) -> None:
    """The quota counts the first one only."""
    guest = make()
    fd = guest.open(b"new", oflags=1)[1]
    guest.put(IOVEC, struct.pack("<IIII", BUFFER, 1, BUFFER, 500_000))
    assert guest.call["fd_write"](fd, IOVEC, 2, OUT) == 0
    assert (workspace / "new").stat().st_size == 1


def test_append_mode_set_later_counts_from_the_end(make: Callable[..., RawGuest], workspace: Path) -> None:
    guest = make()
    guest.interposer.set("max_file", 10)
    fd = guest.open(b"own.txt")[1]
    assert guest.call["fd_fdstat_set_flags"](fd, 1) == 0
    guest.put(IOVEC, struct.pack("<II", BUFFER, 7))
    for name, offset in (("fd_write", ()), ("fd_pwrite", (0,))):
        assert guest.call[name](fd, IOVEC, 1, *offset, OUT) == _EFBIG
    assert (workspace / "own.txt").stat().st_size == 4


# ---- imports

COUNTED_IMPORTS = ("fd_allocate", "fd_renumber", "fd_fdstat_set_rights", "proc_raise")
_NOT_EVEN_THERE = [("env", "system"), ("host", "exec"), ("wasi_unstable", "path_open"), ("wasi:sockets/tcp", "connect")]


@pytest.mark.parametrize("name", COUNTED_IMPORTS)
def test_a_call_nobody_thought_of_does_not_link(
    name: str, make: Callable[..., RawGuest], monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = make()
    module = raw_guest.module(image.load().modules()[0], [(WASI, name)])
    with pytest.raises(ValueError, match="allowlist"):
        guest.interposer.imports_for(module)
    monkeypatch.setattr(interposer, "PASSED", {*interposer.PASSED, name})
    assert guest.interposer.imports_for(module)


@pytest.mark.parametrize(("place", "name"), _NOT_EVEN_THERE)
def test_a_call_of_another_world_does_not_link(place: str, name: str, make: Callable[..., RawGuest]) -> None:
    with pytest.raises(ValueError, match="allowlist"):
        make().interposer.imports_for(raw_guest.module(image.load().modules()[0], [(place, name)]))
