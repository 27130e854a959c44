"""%session in Lab: readable in both themes, and it follows the notebook."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import DARK, LIGHT, Notebook

Make = Callable[..., Notebook]

# The lowest contrast between a text and what is behind it, and that text; WCAG's formula.
CONTRAST = r"""root => {
    const parse = c => c.match(/[\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                         return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); };
    const behind = e => e ? over(parse(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255];
    let worst = [99, ''];
    for (const e of root.querySelectorAll('*')) {
        const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join('').trim();
        if (!text || !e.getClientRects().length) continue;
        const back = behind(e), [a, b] = [light(over(parse(getComputedStyle(e).color), back)), light(back)];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < worst[0]) worst = [ratio, text];
    }
    return worst;
}"""


def _session_id(nb: Notebook) -> str:
    text = nb.text(nb.run("%session"))
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", text)
    assert found is not None, text
    return found[0]


def _rows(table: Locator) -> list[str]:
    return table.locator("tr").all_inner_texts()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_tables_are_readable(notebook: Make, theme: str) -> None:
    hostile = "<img src=x onerror=alert(1)>.csv"
    nb = notebook(
        f"import os\nos.mkdir('data')\nopen('data/cities.csv', 'w').write('x' * 123456)\nopen({hostile!r}, 'w').close()",
        "%session",
        "%session list",
        "%session files",
        "%session limits",
        "%session rename Sales & <b>growth</b>",
        "%prune --older-than 0s",
        "%session watch on\nopen('new.txt', 'w').write('1')\nos.remove('data/cities.csv')",
        "%session delete",
    )
    nb.theme(theme)
    nb.run_all()
    nb.run("%session list")
    for number in range(10):
        for output in nb.output(number).locator('[data-mime-type="text/html"]').all():
            ratio, text = output.evaluate(CONTRAST)
            assert ratio >= 4.5, f"{text!r} has a contrast of {ratio:.1f}"
    expect(nb.panel.locator("img[src=x]")).to_have_count(0)  # tests/browser/test_files.py looks at the browser itself
    assert "Sales & <b>growth</b>" in nb.text(9)
    widths = nb.output(1).locator("table").evaluate("t => [t.getBoundingClientRect().width, t.scrollWidth, innerWidth]")
    assert max(widths[:2]) < widths[2]


def test_session_follows_a_renamed_notebook(notebook: Make) -> None:
    nb = notebook("open('mine.txt', 'w').close()")
    nb.run_all()
    session = _session_id(nb)
    nb.save()
    nb.rename("renamed at last.ipynb")
    number = nb.run("%session")
    assert "renamed at last.ipynb" in nb.text(number)
    nb.restart()
    assert _session_id(nb) == session
    assert "renamed at last.ipynb" in nb.text(nb.run("%session"))
    assert "mine.txt" in nb.text(nb.run("import os; print(os.listdir())"))


def test_new_session_and_back(notebook: Make) -> None:
    nb = notebook("open('mine.txt', 'w').close()")
    nb.run_all()
    session = _session_id(nb)
    number = nb.run("%session new")
    assert nb.output(number).locator("code").inner_text() == f"%session attach {session}"
    (row,) = [row for row in _rows(nb.output(nb.run("%session list"))) if session in row]
    assert f"formerly {nb.name}" in row
    nb.answer(nb.start(f"%session attach {session}"), "yes")
    assert "mine.txt" in nb.text(nb.run("import os; print(os.listdir())"))


def test_undo_and_its_tables(notebook: Make) -> None:
    nb = notebook("kept = 1\nopen('mine.txt', 'w').write('x');")
    nb.run_all()
    nb.run("%session snapshot a good moment")
    nb.run("import os\nkept = 2\nos.remove('mine.txt')")
    assert "−mine.txt" in nb.text(nb.run("%session log"))
    assert "a good moment" in nb.text(nb.run("%session snapshots"))
    nb.start("%session undo")
    expect(nb.output(5).locator("code")).to_have_text("%session redo")
    nb.wait_for_kernel()
    number = nb.start("print(kept, open('mine.txt').read())")
    expect(nb.output(number)).to_contain_text("1 x")


def test_session_is_found_after_rename_and_restart(notebook: Make) -> None:
    nb = notebook("open('mine.txt', 'w').close()")
    nb.run_all()
    session = nb.folder.name
    nb.save()
    nb.rename("renamed and restarted.ipynb")
    nb.restart()
    assert _session_id(nb) == session


def test_copied_notebook_has_a_session_of_its_own(notebook: Make) -> None:
    nb = notebook("open('mine.txt', 'w').close()")
    nb.run_all()
    nb.save()
    session = _session_id(nb)
    nb.command("docmanager:duplicate", wait=True)
    copy = Notebook(nb.lab, nb.page, nb.shots, nb.name.replace(".ipynb", "-Copy1.ipynb"))
    copy.open()
    try:
        number = copy.run("import os; print(os.listdir())")
        assert copy.text(number).strip() == "[]"
        assert _session_id(copy) != session
    finally:
        copy.close()
