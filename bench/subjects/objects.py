"""Which kinds of object come back in another kernel."""

from __future__ import annotations

from pathlib import Path

from bench import contenders
from bench.contenders import Client, Contender
from bench.report import Aim, Section
from bench.setting import Setting
from tests.objects import KINDS, Kind, check_cell

_SAID = "True\n"


def run(setting: Setting) -> Section:
    """Make them all in one notebook, and see what is there in the next kernel; then each in a notebook of its own."""
    ours, dill = contenders.ours(), contenders.dill(setting)
    peers, missing = [dill], ""
    try:
        peers.append(contenders.kishu(setting))
    except RuntimeError as e:
        missing = f" kishu could not be installed: {str(e).strip().splitlines()[-1]}."
    client = Client(setting)
    try:
        _control(client, setting, dill)
        done, steps = 0, 1 + 2 * len(peers)
        together: dict[str, dict[str, str]] = {}
        alone: dict[str, dict[str, str]] = {}
        for contender in (ours, *peers):
            together[contender.name] = _together(client, setting, contender)
            setting.tick(done := done + 1, steps)
        for contender in peers:
            alone[contender.name] = _alone(client, setting, contender)
            setting.tick(done := done + 1, steps)
    finally:
        client.close()
    return _section(ours, peers, together, alone, missing)


def _control(client: Client, setting: Setting, native: Contender) -> None:
    """In one and the same kernel every check must hold."""
    cells = [cell for kind in KINDS for cell in (kind.make, check_cell(kind))]
    found = client.notebook(native, setting.workspace(), cells)
    wrong = [kind.name for kind, cell in zip(KINDS, found[1::2], strict=True) if cell.text != _SAID]
    if wrong:
        raise RuntimeError(f"these do not even hold in the kernel that made them: {', '.join(wrong)}")


def _together(client: Client, setting: Setting, contender: Contender) -> dict[str, str]:
    """What is wrong with each kind, all in one notebook; "" for those that are there."""
    place = setting.workspace()
    made = client.notebook(contender, place, [*contender.before, *(kind.make for kind in KINDS), *contender.save])
    checked = client.notebook(
        contender, place, [*contender.before, *contender.load, *(check_cell(kind) for kind in KINDS)]
    )
    if contender.save and made[-1].error:
        return {kind.name: made[-1].error for kind in KINDS}
    return {
        kind.name: "" if cell.text == _SAID else cell.error or "it is another"
        for kind, cell in zip(KINDS, checked[-len(KINDS) :], strict=True)
    }


def _alone(client: Client, setting: Setting, contender: Contender) -> dict[str, str]:
    """The same, each kind in a notebook of its own."""

    def job(kind: Kind) -> tuple[Contender, Path, list[str], list[str]]:
        first = [*contender.before, kind.make, *contender.save]
        return contender, setting.workspace(), first, [*contender.before, *contender.load, check_cell(kind)]

    tried = KINDS[: setting.rounds.kinds]
    jobs = [job(kind) for kind in tried]
    found: dict[str, str] = {}
    for kind, (made, checked) in zip(tried, client.apart(jobs), strict=True):
        failed = next((cell.error for cell in [*made, *checked] if cell.error), None)
        found[kind.name] = "" if checked[-1].text == _SAID else failed or "it is another"
    return found


def _section(
    ours: Contender,
    peers: list[Contender],
    together: dict[str, dict[str, str]],
    alone: dict[str, dict[str, str]],
    missing: str,
) -> Section:
    def there(found: dict[str, str]) -> int:
        return sum(not wrong for wrong in found.values())

    def whole(name: str) -> str:
        wrong = set(together[name].values())
        return f"none: {wrong.pop()}" if len(wrong) == 1 and "" not in wrong else str(there(together[name]))

    own = there(together[ours.name])
    rows = [
        [f"**of {len(KINDS)}, all in one notebook**", *(whole(c.name) for c in (ours, *peers))],
        ["**each in its own**", "", *(f"{there(alone[c.name])} of {len(alone[c.name])}" for c in peers)],
    ]
    for kind in KINDS:
        mine = together[ours.name][kind.name]
        rows.append([kind.name, _answer(mine), *(_answer(alone[c.name].get(kind.name)) for c in peers)])
    lost = ", ".join(name for name, wrong in together[ours.name].items() if wrong)
    return Section(
        "Which objects come back",
        "A notebook makes these objects, one cell for each, and its kernel ends; another kernel checks that each goes "
        "on where it was: the third value of a generator, the file at its offset, two views of one memory. The cells "
        "are those of `tests/objects.py`; in the kernel that made them all checks hold in ipykernel, too. wasm-kernel "
        "saves and brings back by itself, all in one notebook. dill: `dump_session` and `load_session`; if one object "
        "cannot be pickled, nothing is saved. kishu: a commit after every cell, and `checkout` of the last in the new "
        "kernel; what it cannot pickle it makes by running its cell again, which counts here. One cell that it cannot "
        "follow, and it follows none after it. So below the first line both get each kind in a notebook of its "
        "own." + missing,
        ["", ours.label, *(c.label for c in peers)],
        rows,
        [Aim(f"all {len(KINDS)}", f"{own}" + (f", without {lost}" if lost else ""), own == len(KINDS))],
    )


def _answer(wrong: str | None) -> str:
    if wrong is None:
        return "not tried"
    if not wrong:
        return "yes"
    text = " ".join(wrong.split()).replace("|", "/")
    return f"no: {text}" if len(text) <= 60 else f"no: {text[:57]}..."
