"""Style sheets: they keep to their output, and fetch nothing."""

from __future__ import annotations

import pytest

from wasm_kernel.kernel.seal.stylesheets import declarations, scoped


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
