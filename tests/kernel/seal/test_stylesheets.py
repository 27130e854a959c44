"""Style sheets: they keep to their output, and fetch nothing."""

from __future__ import annotations

import pytest

from wasm_kernel.kernel.seal.stylesheets import _declarations, bounded, declarations, scoped
from wasm_kernel.kernel.seal.stylesheets import _scoped as _scoped_rules


def _one_line(css: str) -> str:
    return " ".join(scoped(css, "S").split())


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".a, #b > c {color: red}", ":where(#S) .a,:where(#S) #b > c{color: red}"),
        ("*{stroke: red}", ":where(#S) *{stroke: red}"),
        ("td:nth-child(odd):not(.x){color:red}", ":where(#S) td:nth-child(odd):not(.x){color:red}"),
        ("body.dark .x{color:red}", "body.dark :where(#S) .x{color:red}"),
        (':root[data-x="1 2"] .x{color:red}', ':root[data-x="1 2"] :where(#S) .x{color:red}'),
        ("@media (min-width: 3px){.a{color:red}}", "@media (min-width: 3px){:where(#S) .a{color:red} }"),
        ("@keyframes k{from{top:0}to{top:1px}}", "@layer wk{@keyframes k{from{top:0}to{top:1px}}}"),
        ("/* hi */ .a{color:red}", ":where(#S) .a{color:red}"),
        (".a{width:calc(1px + 2px)}", ":where(#S) .a{width:calc(1px + 2px)}"),
        (".a{background:url('data:image/png;base64,AA')}", ':where(#S) .a{background:url("data:image/png;base64,AA")}'),
        (".a{clip-path:url(#c)}", ":where(#S) .a{clip-path:url(#c)}"),
        (".a{color:red", ":where(#S) .a{color:red}"),
    ],
)
def test_styles_of_the_output_stay(css: str, kept: str) -> None:
    assert _one_line(css) == kept


@pytest.mark.parametrize(
    "css",
    [
        "body{display:none}",
        "html:not(:is(a b)) {display:none}",
        ":root{display:none}",
        "~ .jp-Notebook{display:none}",
        "+ p{x:y}",
        "> p{x:y}",
        "@import 'http://evil/x';",
        "@font-face{font-family:x;src:url(http://evil/x)}",
        "@page{margin:0}",
        "@property --x{syntax:'*';inherits:true}",
        "@namespace url(http://evil)",
    ],
)
def test_what_is_not_about_the_output_goes(css: str) -> None:
    assert _one_line(css) == ""


@pytest.mark.parametrize(
    "css",
    [
        ".x{& ~ .y{display:none}}",
        ".x{body:has(&){display:none}}",
        ".x{:not(&){display:none}}",
    ],
)
def test_nested_rules_do_not_get_out(css: str) -> None:
    assert _one_line(css) == ":where(#S) .x{}"


@pytest.mark.parametrize("ancestor", [":root:not(:is(a b))", "html:has(a b)", 'body[title="a b"]'])
def test_a_space_in_brackets_is_no_end_of_the_page_s_part(ancestor: str) -> None:
    assert _one_line(f"{ancestor} .jp-x{{display:none}}") == f"{ancestor} :where(#S) .jp-x{{display:none}}"


@pytest.mark.parametrize(
    "value",
    [
        "background:url(http://evil/x)",
        "background:URL( 'http://evil/x' )",
        "background:u\\72l(http://evil/x)",
        "background:image-set('http://evil/x' 1x)",
        "background:-webkit-image-set(url(http://evil/x) 1x)",
        "background:cross-fade(url(http://evil/x),url(http://evil/y))",
        "background:src('http://evil/x')",
        "background:url(data:text/html,x)",
        "--x:url(http://evil/x)",
        "cursor:url(http://evil/x),auto",
        "content:url(http://evil/x)",
        "behavior:url(x)",
        "position:fixed",
        "position:sticky",
        "position:var(--p)",
        "POSITION : FIXED !important",
        "position:/**/fixed",
        "mask:element(#x)",
        "color:expression(alert(1))",
    ],
)
def test_nothing_is_fetched_and_nothing_is_fixed(value: str) -> None:
    assert declarations(f"color:red;{value};top:1px").replace(" ", "") in ("color:red;top:1px",)


def test_a_string_does_not_end_the_element() -> None:
    assert "<" not in scoped('.a::after{content:"</style><script>"}', "S")


def test_the_scope_s_placeholder_cannot_be_written() -> None:
    assert scoped(".a\0scope\0{color:red}", "S") == ""


@pytest.mark.parametrize(
    "name",
    [
        r"x\3b background\3aurl\28http\3a\2f\2f evil\29\3b y",
        r"x\7d body\7b color",
        r"x\3c\2fstyle\3e",
    ],
)
def test_an_escape_in_a_name_ends_nothing(name: str) -> None:
    assert declarations(f"{name}:[1];color:red") == "color:red"
    assert scoped(f".a[b]{{{name}:red}}", "S").strip() == ":where(#S) .a[b]{}"


@pytest.mark.parametrize(
    "css",
    [
        f".a[b]{{color:red;width:{'1' * 5000}px}}",
        f".a[b]{{color:{'[' * 5000}}}",
        f".a{':is(' * 5000}{{color:red}}",
    ],
)
def test_what_the_parser_cannot_read_goes(css: str) -> None:
    assert "{color" not in scoped(css, "S")


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    "css", ["/* " * 100_000, "a[b]{x:y}" * 500_000, "a{position:static}" * 300_000, "a{b:(" * 10**6]
)
def test_the_time_is_bounded(css: str) -> None:
    with bounded():
        scoped(css, "S")
        for number in range(1000):
            declarations(f"color{number}:[{'+' * 10_000}]")


def test_what_is_long_is_not_remembered() -> None:
    _scoped_rules.cache_clear()
    _declarations.cache_clear()
    declarations("color:red;" * 10_000)
    scoped("a{color:red}" * 10_000, "S")
    assert _declarations.cache_info().currsize == _scoped_rules.cache_info().currsize == 0


def test_the_bound_is_one_output_s() -> None:
    """What was too much for one is not remembered as unreadable."""
    with bounded():
        declarations(f"color:[{'+' * (1 << 20)}]")
        declarations(f"color:[{'+' * (1 << 20)}]")
        assert declarations("color:[one]") == ""
    with bounded():
        assert declarations("color:[one]") == "color:[one]"
    assert declarations("color:[two]") == "color:[two]"
