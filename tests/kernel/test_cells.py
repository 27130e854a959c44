"""What the host reads in a cell's text: which of its magics it holds, and how often each may be done. No guest."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.kernel import cells

MOST = cells.MOST_REPEATS
CALL = "get_ipython().run_line_magic('session', 'undo')"


def times(code: str, line: str = "undo", name: str = "session") -> int:
    return cells.read(code).times(name, line)


def done(claims: cells.Claims, line: str = "undo", tries: int = 3 * MOST) -> int:
    """How often a magic gets done by a guest that asks for it again and again."""
    count = 0
    for _ in range(tries):
        try:
            count += claims.claim("session", line) is not None
        except WasmKernelError:
            pass
    return count


@pytest.mark.parametrize(
    "code",
    [
        "%session undo",
        "x = 1\n%session undo",
        "s = %session undo",
        CALL,
        f"print({CALL})",
        "if x:\n    %session undo",
        "if x:\n    pass\nelse:\n    %session undo",
        "with open('f'):\n    %session undo",
        "try:\n    %session undo\nexcept Exception:\n    pass",
        "try:\n    pass\nfinally:\n    %session undo",
        "match x:\n    case 1:\n        %session undo",
        "class C:\n    %session undo",
        f"for n in {CALL}:\n    pass",
        "for n in x:\n    pass\nelse:\n    %session undo",
        "while x:\n    pass\nelse:\n    %session undo",
        f"def f(a={CALL}):\n    pass",
        f"@{CALL}\ndef f():\n    pass",
        "%%time\n%session undo",
        "%%capture out\n%session undo",
        "%%prun -l 3\n%session undo",
        "%time %session undo",
        "%time --no-raise-error %session undo",
        "s = %time %session undo",
        "%prun -l 5 -q %session undo",
        "%time %time %session undo",
        "%%time\nif x:\n    %time %session undo",
    ],
)
def test_what_stands_there_once_counts_once(code: str) -> None:
    assert times(code) == 1


@pytest.mark.parametrize(
    "code",
    [
        "for n in range(3):\n    %session undo",
        "for n in x:\n    if n:\n        %session undo",
        "for n in x:\n    for m in []:\n        pass\n    else:\n        %session undo",
        "while True:\n    %session undo",
        f"while {CALL}:\n    pass",
        "async def f():\n    async for n in x:\n        %session undo",
        "def f():\n    %session undo",
        "async def f():\n    %session undo",
        "class C:\n    def f(self):\n        %session undo",
        f"f = lambda: {CALL}",
        f"[{CALL} for n in x]",
        f"{{{CALL} for n in x}}",
        f"{{1: {CALL} for n in x}}",
        f"list({CALL} for n in x)",
        f"[n for n in x if {CALL}]",
        "%timeit %session undo",
        "%timeit -n 5 -r2 -q %session undo",
        "%timeit -n5 -r 2 -v t %session undo",
        "%%timeit\n%session undo",
        "%%timeit -n 5\n%session undo",
        "%%timeit %session undo\npass",
        "for n in x:\n    %time %session undo",
        "def f():\n    %time %session undo",
        "%%time\nfor n in x:\n    %session undo",
        "%time %timeit %session undo",
    ],
)
def test_what_can_run_repeatedly_counts_a_hundred_times(code: str) -> None:
    assert times(code) == MOST


@pytest.mark.parametrize(
    "code",
    [
        "",
        "'%session undo'",
        "# %session undo",
        "'''\n%session undo\n'''",
        "get_ipython().run_line_magic('ses' + 'sion', 'undo')",
        "get_ipython().run_line_magic(name, 'undo')",
        "exec(\"get_ipython().run_line_magic('session', 'undo')\")",
        "%%writefile f.py\n%session undo",
        "%%html\n%session undo",
        "%%capture %session undo\npass",
        "%matplotlib %session undo",
        "%session undo 2",
        "%prune undo",
        "%session undo\ndef broken(",
        "x = " + "(" * 500 + "1" + ")" * 500 + "\n%session undo",
        "%time " * 5000 + "%session undo",
    ],
)
def test_what_does_not_stand_there_does_not_count(code: str) -> None:
    assert times(code) == 0
    assert cells.read(code).find("session", "undo") is None


def test_a_long_sum_is_no_obstacle() -> None:
    assert times("x = " + " + ".join(["1"] * 900) + "\n%session undo") == 1


def test_places_add_up() -> None:
    assert times("%session undo\nx = 1\n%session undo\n%session undo") == 3
    assert times("%session undo\nfor n in x:\n    %session undo") == MOST + 1
    assert times("for n in x:\n    %session undo\nwhile x:\n    %session undo") == MOST, "together, not each"
    text = "%session undo\n%session fork\n%session undo"
    assert (times(text), times(text, "fork"), times(text, "list")) == (2, 1, 0)


def test_each_magic_has_a_count_of_its_own() -> None:
    text = "%session list\n%prune\n%pip list"
    assert [times(text, "list"), times(text, "", "prune"), times(text, "list", "pip")] == [1, 1, 1]


def test_only_one_place_at_the_end_is_the_last() -> None:
    def last(code: str) -> bool:
        found = cells.read(code).find("session", "undo")
        assert found is not None
        return found.last

    assert last("x = 1\n%session undo")
    assert last("%%time\nx = 1\n%session undo")
    assert last("%time %session undo")
    assert not last("%session undo\nx = 1")
    assert not last("%session undo\nx = 1\n%session undo"), "the first of the two would be done, too"
    assert not last("for n in x:\n    %session undo")
    assert not last("if x:\n    %session undo")
    assert not last("%%timeit\n%session undo")
    assert not last("%timeit %session undo")
    assert not last("%time %session undo\nx = 1")
    assert not last("s = %session undo")


def test_shown_and_used() -> None:
    def roles(code: str) -> tuple[bool, bool]:
        found = cells.read(code).find("session", "undo")
        assert found is not None
        return found.shown, found.used

    assert roles("%session undo") == (True, False)
    assert roles("s = %session undo") == (False, True)
    assert roles("s = %time %session undo") == (True, True)
    assert roles("s = %session undo\n%session undo") == (True, True)


def test_a_cell_of_nothing_else() -> None:
    assert cells.read("%session undo\n%prune").only_magics
    for code in ("x = 1\n%session undo", "%time %session undo", "%%time\n%session undo", "%matplotlib\n%session undo"):
        assert not cells.read(code).only_magics


# ---- claims


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("x = 1\n%session undo", 1),
        ("%session undo\nx = 1\n%session undo", 2),
        ("for n in x:\n    %session undo", MOST),
        ("%session undo\nfor n in x:\n    %session undo", MOST + 1),
        ("x = 1", 0),
    ],
)
def test_a_guest_that_asks_on_and_on_gets_what_the_text_says(code: str, most: int) -> None:
    assert done(cells.Claims(cells.read(code))) == most


def test_what_was_done_in_one_cell_does_not_count_in_the_next() -> None:
    cell = cells.read("x = 1\n%session undo")
    assert [done(cells.Claims(cell)) for _ in range(3)] == [1, 1, 1]


def test_nothing_is_done_when_the_cell_has_ended() -> None:
    claims = cells.Claims(cells.read("def f():\n    %session undo"))
    assert claims.claim("session", "undo") is not None
    claims.ended = True
    for line in ("undo", "list"):
        with pytest.raises(WasmKernelError, match="background task or a widget's callback; write it in a cell"):
            claims.claim("session", line)
    assert done(claims) == 0


def test_errors_say_what_was_done_and_why_no_more() -> None:
    claims = cells.Claims(cells.read("x = 1\n%session undo"))
    assert claims.claim("session", "undo") is not None
    with pytest.raises(WasmKernelError, match="%session undo has run once in this cell"):
        claims.claim("session", "undo")
    looped = cells.Claims(cells.read("while True:\n    %session undo"))
    done(looped, tries=MOST)
    with pytest.raises(WasmKernelError, match=f"run {MOST} times in this cell, the most for a loop or a function"):
        looped.claim("session", "undo")
    with pytest.raises(WasmKernelError) as long:
        cells.Claims(ended=True).claim("session", "x" * 100_000)
    assert len(str(long.value)) < 1000


def test_a_cell_that_takes_long_to_read_is_refused() -> None:
    """IPython's transformer takes time with the square of the number of such lines: 600 took 16 s."""
    with pytest.raises(WasmKernelError, match="600 lines with magics .* in a separate cell"):
        cells.read("%session info\n" * 600)
    assert cells.read("%time session = 1\n" * 600) == cells.Cell()
    assert len(cells.read("x = '%s' % 1\n" * 3000 + "%session info").magics) == 1


# ---- properties

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=30)
BLANKS = st.sampled_from(["", " ", "\t", "    "])
HARMLESS = st.one_of(
    st.sampled_from(
        [
            "x = 1", "pass", "x = '%session undo'", 'y = """\n%session undo\n"""', "z = r'''\n  %session undo'''",
            "# %session undo", "x = 5 # %session undo", "f'{1}%session undo'", "b'%session undo'", "print('a' '%session undo')",
            "x = 7 %session_undo", "a = b %session", "x = (3\n%session)", "x = [1,\n%session\n]", "x = '\\\n%session undo'",
            "y = 1 \\\n%session", "%matplotlib inline", "!echo %session undo", "%lsmagic", "x?", "%pinfo %session undo",
            "%sessions undo", "% session undo", "%session_ undo", "%ｓession undo", "%%%session undo", "％session undo",
            "get_ipython().run_line_magic('session', *['undo'])", "get_ipython().run_line_magic('session', line='undo')",
            "get_ipython().run_line_magic('session', f'undo')", "get_ipython().run_line_magic('session', 'un' 'do' + '')",
            "get_ipython().run_line_magic", "run_line_magic('session', 'undo')", "ip.run_line_magic('session', 'undo')",
            "get_ipython.run_line_magic('session', 'undo')", "x.get_ipython().run_line_magic('session', 'undo')",
            "get_ipython().run_line_magic(b'session', 'undo')", "get_ipython().run_cell_magic('session', 'undo', '')",
            "get_shell().run_line_magic('session', 'undo')", "get_ipython().run_line_magic('session', 'undo', x)",
            "get_ipython().run_line_magic(x, 'session', 'undo')", "getattr(get_ipython(), 'run_line_magic')('session', 'undo')", "get_ipython()['run_line_magic']('session', 'undo')",
            "get_ipython().magic('session undo')", "eval('%session undo')", "%run %session undo", "%env %session undo",
        ]
    ),
    TEXTS.map(repr),
    TEXTS.map(lambda text: "# " + " ".join(text.split())),
)  # fmt: skip
HOLDS = {  # how a text may hold one, and how often it may then be done
    "%session undo": 1,
    "%session undo  ": 1,
    "s = %session undo": 1,
    CALL: 1,
    f"print([{CALL}])": 1,
    "get_ipython().run_line_magic('session',\n    'un' 'do')": 1,
    f"a = ({CALL}, {CALL})": 2,
    "%time %session undo": 1,
    "if x:\n    %session undo\nelse:\n    s = %session undo": 2,
    "if x: pass\n%session undo": 1,
}


@given(st.lists(HARMLESS, max_size=6))
def test_what_only_looks_like_one_never_counts(pieces: list[str]) -> None:
    assert times("\n".join(pieces)) == 0


@given(st.lists(st.one_of(HARMLESS, st.sampled_from(sorted(HOLDS))), max_size=8))
def test_it_never_counts_more_often_than_it_stands_there(pieces: list[str]) -> None:
    """Perhaps less often: what stands before may make it part of something else."""
    code, most = "\n".join(pieces), sum(HOLDS.get(piece, 0) for piece in pieces)
    found = times(code)
    assert found <= most
    assert done(cells.Claims(cells.read(code)), tries=most + 3) == found


PLAIN = st.one_of(st.sampled_from(["x = 1", "pass", "", "# %session undo"]), TEXTS.map(lambda text: f"x = {text!r}"))


@given(st.lists(st.one_of(PLAIN, st.sampled_from(sorted(HOLDS))), max_size=8))
def test_it_counts_as_often_as_it_stands_there_between_plain_statements(pieces: list[str]) -> None:
    assert times("\n".join(pieces)) == sum(HOLDS.get(piece, 0) for piece in pieces)


SEPARATORS = st.sampled_from(["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n"])


@pytest.mark.filterwarnings("ignore:.make_tokens_by_line:UserWarning")
@given(TEXTS, SEPARATORS, BLANKS, st.sampled_from(["%session undo", CALL, f"%time {CALL}"]))
def test_what_is_a_string_to_python_is_none_to_us(text: str, separator: str, blank: str, magic: str) -> None:
    """Also where IPython sees the end of a line and Python does not."""
    inner = f"{text}{separator}{blank}{magic}{separator}"
    for code in (f'x = """{inner}"""', f"x = ('a', \"{inner}\")", f"x = 1  # {inner}"):
        try:
            calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
        except (SyntaxError, ValueError):
            continue
        assert calls or times(code) == 0


@given(TEXTS, TEXTS, BLANKS)
def test_any_text_in_a_string_or_a_comment_or_another_cell_is_only_text(before: str, after: str, blank: str) -> None:
    text = f"{before}\n{blank}%session undo\n{after}"
    assert times(f"x = {text!r}") == 0
    assert times("".join(f"# {line}\n" for line in text.splitlines())) == 0
    assert times(f"x = {ascii(CALL + text)}; exec(x)") == 0
    assert times(f"%%writefile f\n{text}") == 0
    assert times(f"%%html\n{text}") == 0


@given(TEXTS)
def test_a_claim_is_for_the_very_line(line: str) -> None:
    claims = cells.Claims(cells.read("%session undo"))
    if line != "undo":
        assert claims.claim("session", line) is None
    assert claims.claim("prune", "undo") is None and claims.claim("", "session undo") is None
    assert claims.claim("session", "undo") is not None, "a try for something else uses nothing up"


@pytest.mark.filterwarnings("ignore:.make_tokens_by_line:UserWarning")
@given(st.text(max_size=200))
def test_any_text_at_all_is_read_without_a_mishap(code: str) -> None:
    for text in (code, f"{code}\n%session undo", f"%session undo\n{code}", f"%%time\n{code}%session undo"):
        try:
            cell = cells.read(text)
        except WasmKernelError:
            continue
        assert cell.times("session", "undo") <= text.count("undo") * (MOST + 1)


@pytest.mark.parametrize("line", ["undo", "%session undo", "", "\\", "'", "{x}", "$x", "\u202eodnu", "ｕｎｄｏ"])
def test_a_line_is_taken_as_ipython_takes_it(line: str) -> None:
    """The host compares with what the guest will say, and that is what IPython made of the text."""
    for magic in cells.read(f"x = 1\n%session {line}").magics:
        assert magic.line == line.strip()
