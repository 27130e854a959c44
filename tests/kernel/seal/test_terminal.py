"""Control sequences: colours stay, questions to the terminal do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.kernel.seal import tex
from wasm_kernel.kernel.seal.terminal import StreamFilter, defused


@pytest.mark.parametrize(
    "text", ["plain ü 漢\r\n\t\b", "\x1b[31mred\x1b[0m", "\x1b[38;5;208mx\x1b[K", "\x1b[2A\x1b[1Gup"]
)
def test_colours_and_movements_stay(text: str) -> None:
    assert defused(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07", "]8;;javascript:alert(1)\x07x]8;;\x07"),
        ("\x1b]52;c;AAAA\x07", "]52;c;AAAA\x07"),
        ("\x1b[6n", "[6n"),
        ("\x1b[?1049h", "[?1049h"),
        ("\x1bP+q\x1b\\", "P+q\\"),
        ("\x9b6n\x9d", "6n"),
        ("\x1b\x1b[31m", "\x1b[31m"),
    ],
)
def test_other_sequences_are_shown_not_obeyed(text: str, shown: str) -> None:
    assert defused(text) == shown


@given(st.lists(st.text(alphabet="\x1b[]0;mnKx\x07", max_size=6), max_size=12))
def test_a_sequence_may_be_cut_anywhere(pieces: list[str]) -> None:
    whole = "".join(pieces)
    stream = StreamFilter()
    got = "".join(stream.write(piece) for piece in pieces)
    rest = stream.write("\n")
    assert got + rest == defused(whole + "\n")


def test_tex_without_links() -> None:
    assert tex.defused(r"\frac12 \href{javascript:x}{y}") == r"\frac12 ⧵href{javascript:x}{y}"
    assert tex.defused(r"\hrefx \classy \datax") == r"\hrefx \classy \datax"
    for command in ("href", "url", "style", "class", "cssId", "data", "unicode", "require", "bbox", "mmlToken"):
        assert f"\\{command}" not in tex.defused(f"\\{command}{{x}}")
