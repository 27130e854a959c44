"""Long outputs as a person sees them: in JupyterLab, until the last line is on the page."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.report import Aim, Section, milliseconds, number
from bench.rounds import interleave
from bench.setting import Setting
from tests.browser import chromium
from tests.browser.lab import Lab, Notebook, open_lab, running_browser, running_lab

_LINES, _WIDTH = 20_000, 100
_OURS, _NATIVE = "wasm", "python3"
_KERNELSPEC = Path(__file__).parents[2] / "kernelspec"
_CODE = f"for i in range({_LINES}): print(f'{{i:0{_WIDTH - 1}}}')"
# Asking for the whole text takes long in itself, so not for every frame.
_SHOWN = """async last => {
    const began = performance.now();
    jupyterapp.commands.execute('notebook:run-cell');
    while (true) {
        await new Promise(done => setTimeout(() => requestAnimationFrame(done), 50));
        const shown = document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output pre');
        if (shown.length && shown[shown.length - 1].textContent.trimEnd().endsWith(last))
            return (performance.now() - began) / 1000;
    }
}"""


def run(setting: Setting) -> Section:
    """Measure our kernel beside ipykernel in one JupyterLab. Needs a Chromium."""
    executable = chromium.find()
    if executable is None:
        return Section("Long outputs in JupyterLab", f"Not measured: {chromium.MISSING}", [""], [])
    folder = setting.workspace()
    shutil.copytree(_KERNELSPEC, folder / "lab" / "data" / "kernels" / _OURS)
    with running_lab(folder / "lab", folder / "log") as lab, running_browser(executable) as context:
        page = open_lab(context, lab)
        last = f"{_LINES - 1:0{_WIDTH - 1}}"

        def measure(kernel: str, made: list[int]) -> Mapping[str, float]:
            made.append(0)
            notebook = Notebook.make(lab, page, folder, f"{kernel}{len(made)}.ipynb", (_CODE,), kernel)
            notebook.cell(0).click()
            taken = float(page.evaluate(_SHOWN, last))
            _close(notebook, lab)
            return {kernel: taken}

        measures = [partial(measure, kernel, []) for kernel in (_OURS, _NATIVE)]
        found = interleave(measures, setting.rounds.lab, setting.tick, warm_up=True)
    ratio = found.ratio(_OURS, _NATIVE)
    return Section(
        "Long outputs in JupyterLab",
        f"A cell prints {_LINES:,} lines of {_WIDTH} bytes: from the click until the last one is on the page, in "
        "Chromium; times in ms.",
        ["", "wasm-kernel", "ipykernel"],
        [["shown", f"{milliseconds(found, _OURS)}, {number(ratio)}x", milliseconds(found, _NATIVE)]],
        [Aim("a long output is shown no later than with ipykernel", f"{number(ratio)}x", ratio <= 1.0)],
    )


def _close(notebook: Notebook, lab: Lab) -> None:
    """Close a notebook and end its kernel, so that the next one has the page and the machine to itself."""
    notebook.page.evaluate("id => jupyterapp.serviceManager.kernels.shutdown(id)", notebook.kernel_id)
    notebook.page.evaluate(
        "name => [...jupyterapp.shell.widgets('main')].find(w => w.context?.path === name)?.dispose()", notebook.name
    )
