"""HTML and SVG of the guest's: what stays, what goes, how long it takes."""

from __future__ import annotations

import base64
import time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.kernel.seal import markup
from wasm_kernel.kernel.seal.markup import TooComplicated

PANDAS = """<div>
<style scoped>
    .dataframe tbody tr th {
        vertical-align: top;
    }
</style>
<table border="1" class="dataframe">
  <thead><tr style="text-align: right;"><th></th><th>a</th></tr></thead>
  <tbody><tr><th>0</th><td>1 &lt; 2</td></tr></tbody>
</table>
</div>"""


def test_a_table_stays_as_it_is() -> None:
    sealed = markup.sealed_html(PANDAS)
    assert '<table border="1" class="dataframe">' in sealed
    assert '<tr style="text-align: right;">' in sealed
    assert "<td>1 &lt; 2</td>" in sealed


def test_styles_apply_to_their_own_output_only() -> None:
    sealed = markup.sealed_html(PANDAS)
    scope = sealed.partition('id="')[2].partition('"')[0]
    assert f":where(#{scope}) .dataframe tbody tr th{{vertical-align: top;}}" in sealed
    assert scope != markup.sealed_html(PANDAS).partition('id="')[2].partition('"')[0]


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        '<svg onload="alert(1)"><script>alert(1)</script></svg>',
        "<svg><foreignObject><iframe src=javascript:alert(1)></foreignObject></svg>",
        '<a href="javascript:alert(1)">x</a>',
        '<a href=" java\tscript:alert(1)">x</a>',
        '<a href="data:text/html,<script>alert(1)</script>">x</a>',
        '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
        "<object data=x><embed src=x><link rel=stylesheet href=x><meta http-equiv=refresh content=0><base href=x>",
        '<form action="javascript:alert(1)"><button formaction="javascript:alert(1)">x</button></form>',
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
        '<svg><use href="http://evil/x.svg#a"/><image href="http://evil/x.png"/></svg>',
        '<svg><a><animate attributeName="href" values="javascript:alert(1)"/></a></svg>',
        "<template><script>alert(1)</script></template><noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
        '<img src="http://evil/x.png"><video poster="http://evil/x"></video><audio src="//evil/x"></audio>',
        '<img srcset="http://evil/x 1x"><body background="http://evil/x"><input type=image src="http://evil/x">',
        '<p style="background:url(http://evil/x)">x</p>',
        '<p style="background:\\75 rl(http://evil/x)">x</p>',
        '<p style="background:image-set(&quot;http://evil/x&quot; 1x)">x</p>',
        '<button data-commandlinker-command="terminal:create-new" data-commandlinker-args="{}">x</button>',
        "<style>@import url(http://evil/x);p{background:url(http://evil/y)}</style><p>x</p>",
        '<svg><style>*{fill:url("http://evil/x")}</style><rect/></svg>',
        '<rect fill="url(http://evil/x#a)"/>',
    ],
)
def test_nothing_runs_and_nothing_is_fetched(hostile: str) -> None:
    sealed = markup.sealed_html(hostile).lower()
    for trace in ("alert", "evil", "javascript", "<script", "<iframe", "<form", "<object", "<meta", "<base", "<link"):
        assert trace not in sealed
    assert "commandlinker" not in sealed


def test_nothing_covers_the_page() -> None:
    sealed = markup.sealed_html('<div style="position:fixed;top:0;color:red" class="jp-Dialog mine lm-Menu">x</div>')
    assert "fixed" not in sealed and "jp-Dialog" not in sealed and "lm-Menu" not in sealed
    assert 'class="mine"' in sealed and "color:red" in sealed
    assert "contain:layout paint" in sealed  # and whatever else there may be, it does not paint outside


def test_pictures_sounds_and_links_stay() -> None:
    sealed = markup.sealed_html(
        '<img src="data:image/png;base64,AA=="><audio controls src="data:audio/wav;base64,AA=="></audio>'
        '<a href="https://example.org/">l</a><a href="files/a.csv" target="_self">f</a>'
        '<a download="x.csv" href="data:text/csv;base64,AA==">d</a>'
    )
    assert '<img src="data:image/png;base64,AA==">' in sealed
    assert '<audio controls="" src="data:audio/wav;base64,AA==">' in sealed
    assert '<a href="https://example.org/" rel="noopener noreferrer">' in sealed
    assert 'href="files/a.csv" target="_blank"' in sealed
    assert 'href="data:text/csv;base64,AA=="' in sealed


def test_mathematics_may_not_make_links() -> None:
    sealed = markup.sealed_html(r"<p>$\href{javascript:alert(1)}{x} \frac{1}{2}$</p>")
    assert r"\href" not in sealed and r"\frac{1}{2}" in sealed


SVG = (
    '<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 9 9"><defs><linearGradient id="g"><stop offset="0" stop-color="red"/></linearGradient>'
    '<style type="text/css">*{stroke-linejoin: round}</style></defs>'
    '<g clip-path="url(#c)"><path d="M0 0" fill="url(#g)"/><use xlink:href="#p"/><text>a&#160;b</text></g></svg>'
)


def test_a_picture_of_lines_stays_one() -> None:
    root = ElementTree.fromstring(markup.sealed_svg(SVG))
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"svg", "defs", "linearGradient", "stop", "g", "path", "use", "text", "style"} == names
    assert root.attrib["viewBox"] == "0 0 9 9"


def test_a_picture_of_lines_has_no_scripts() -> None:
    hostile = SVG.replace("<g ", '<script>alert(1)</script><image href="http://evil/x"/><g onload="alert(1)" ')
    sealed = markup.sealed_svg(hostile)
    assert "alert" not in sealed and "evil" not in sealed


@given(st.text(alphabet="<>/\"'= abistyledvonerrscrp\\:&;#x(){}", max_size=200))
def test_sealing_twice_changes_nothing_more(text: str) -> None:
    """What comes out is what the parser would read again: nothing hides for a second look."""
    once = markup.sealed_inline(text)
    assert markup.sealed_inline(once) == once


@pytest.mark.parametrize(
    "crooked",
    [
        "<div><table><td></div></table></td>",
        "<p><b><div>",
        "<font color=a><p>",
        "<a><b><i>",
        "<style>",
        "<!--",
        "<svg><style><a",
        "<select><option>",
        "<x " + 'a="<" ',
        "&lt",
        "<div style='",
        "\\href",
    ],
)
def test_the_time_is_linear_in_the_length(crooked: str) -> None:
    def seconds(size: int) -> float:
        text = crooked * (size // len(crooked))
        begun = time.thread_time()
        try:
            markup.sealed_html(text)
        except markup.TooComplicated:
            pass
        return time.thread_time() - begun

    assert seconds(4_000_000) < max(12 * seconds(1_000_000), 1.5)  # with the square it would be 16 times, and minutes


def test_formatting_that_multiplies_is_refused() -> None:
    """Each paragraph would repeat every open element: 9 million of them."""
    with pytest.raises(markup.TooComplicated):
        markup.sealed_html("".join(f"<b id={n}>" for n in range(3000)) + "<p>" * 3000)


def test_a_long_table_is_not_looked_at_longer_than_need_be() -> None:
    row = "<tr>" + "".join(f"<td>{n}</td>" for n in range(10)) + "</tr>\n"
    table = f'<table border="1" class="dataframe"><tbody>{row * 10_000}</tbody></table>'
    assert len(table) > markup._LONG and markup._is_plain(table)
    assert table in markup.sealed_html(table)


@pytest.mark.parametrize(
    "extra",
    [
        "<script>1</script>",
        "<td onclick=x>",
        '<td class="jp-Dialog"></td>',
        '<td style="background:url(x)"></td>',
        "<td></tr>",
        "<td",
        '<td class="a&quot; onclick=x"></td>',
        '<td title="<img>"></td>',
        "<svg></svg>",
        "<!-- -->",
        "<td>&#92;href</td>",
        "<td>&bsol;href</td>",
    ],
)
def test_a_long_table_with_anything_else_in_it_is_looked_at(extra: str) -> None:
    assert markup._is_plain("<table><tr><td>1</td></tr></table>")
    assert not markup._is_plain(f"<table><tr><td>1</td>{extra}</tr></table>")


@pytest.mark.parametrize("digits", [10, 5000])
def test_a_value_that_cannot_be_checked_goes(digits: int) -> None:
    """nh3 keeps a value as it came where the check of it raises."""
    sealed = markup.sealed_html(f'<p style="background:url(http://evil/);width:{"1" * digits}px">x</p>')
    assert "evil" not in sealed


def test_a_check_that_raises_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tag: str, value: str) -> str:
        raise RuntimeError

    monkeypatch.setitem(markup._CHECKS, "src", broken)
    assert markup.sealed_html("<img src=http://evil/>") == "<img>"


def test_mathematics_in_pieces_may_not_make_links_either() -> None:
    assert r"\unicode" not in markup.sealed_html(r"$\unic<wbr>ode[x]{x41}$") + markup.sealed_inline(r"$\uni<wbr/>code$")
    assert r"\href" not in markup.sealed_svg(r"<svg><text>$\href{javascript:x}{y}$</text></svg>")
    assert markup.sealed_html("long<wbr>word") == "long<wbr>word"


_LIST = base64.b64encode(b"#EXTM3U\n#EXTINF:5,\nhttp://evil/x.ts\n").decode()


@pytest.mark.parametrize(
    "address", [f"data:video/mp4;base64,{_LIST}", f"data:audio/mpeg;base64, {_LIST}", "data:video/mp4,%23EXTM3U"]
)
def test_a_list_of_films_elsewhere_is_no_film(address: str) -> None:
    assert "data:" not in markup.sealed_html(f'<video controls src="{address}"></video>')


def test_what_is_drawn_stays_in_its_box() -> None:
    assert "contain:" in markup.sealed_html("<svg overflow=visible><rect x=-900 width=9999 height=9999></rect></svg>")


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    "crooked",
    [
        "<p " + " ".join(f"a{number}" for number in range(1_000_000)) + ">x",
        "<p " + "".join(f"a{number}=''" for number in range(1_000_000)) + ">x",
        "</p " + "/".join(f"a{number}" for number in range(1_000_000)) + ">x",
        f"<p {' '.join(f'a{number}' for number in range(3000))}></p>" * 1000,
        "<style " * 1_000_000,
    ],
    ids=["attributes", "quoted", "of end tags", "of many tags", "styles"],
)
def test_many_attributes_are_refused(crooked: str) -> None:
    with pytest.raises(TooComplicated):
        markup.sealed_html(crooked)


def test_long_values_and_long_text_are_no_attributes() -> None:
    path = "M 0 0 " * 100_000
    assert path.strip() in markup.sealed_html(f'<!-- a comment --><svg><path d="{path}"/></svg>')
    assert markup.sealed_html("<p>" + "a word " * 100_000 + "<br>").count("word") == 100_000


def test_half_a_character_is_not_shown() -> None:
    with pytest.raises(TooComplicated):
        markup.sealed_html("a\ud800b")
