"""Reading more at /data than the person showed: hidden names of their folder, and what links in it lead to.

The folder is the person's; who wrote a link in it may be a stranger, as with a notebook that came with its folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import BaseSandbox, SandboxResult
from wasm_kernel.host.runtime import interposer

_SECRET = "correct-horse-battery"


@contextmanager
def _everything_shown() -> Iterator[None]:
    text = interposer.filter_text()
    for guard in ("(call $in_data (local.get $dir))", "(call $in_data (local.get $fd))"):
        text = guards.without(text, guard, "(i32.const 0)")
    with (
        guards.filter_replaced(text),
        guards.patched((interposer.Interposer, "_shown", lambda self, item: True)),
    ):
        yield


class _DataScene(Scene):
    """A folder of the person's at /data, with secrets under hidden names, and links to them."""

    def _create(self) -> BaseSandbox:
        data, outside = self.folder / "data", self.folder / "outside"
        if not data.exists():
            for folder in (data / ".git", data / "deep" / ".ssh", outside):
                folder.mkdir(parents=True)
            for name in (".env", f".{_SECRET}", ".git/config", "deep/.ssh/key", "deep/.hidden"):
                (data / name).write_text(_SECRET)
            (outside / "secret").write_text(_SECRET)
            (data / "deep" / "plain.csv").write_text("1")
            (data / "notes").symlink_to(".env")
            (data / "again").symlink_to("notes")
            (data / "repository").symlink_to(".git")
            (data / "deep" / "up").symlink_to("../.git")
            (data / "there").symlink_to("deep")
            (data / "out").symlink_to("../outside")
            (data / "out.txt").symlink_to(outside / "secret")
        sandbox = super()._create()
        sandbox._sandbox.show_data(data)
        return sandbox

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        return ["the secret was read"] if _SECRET in result.stdout else []


_WAYS = {
    "open": "print(open('/data/.env').read())",
    "list": "print(os.listdir('/data'))",
    "scan": "print([e.name for e in os.scandir('/data')])",
    "glob": "import glob; print(glob.glob('/data/.*'))",
    "walk": "print([n for _, _, names in os.walk('/data') for n in names])",
    "below a hidden folder": "print(open('/data/.git/config').read())",
    "deep": "print(open('/data/deep/.ssh/key').read())",
    "by the folder's descriptor": "print(os.read(os.open('.env', R, dir_fd=os.open('/data', R)), 99))",
    "by a deeper descriptor": "print(os.read(os.open('.hidden', R, dir_fd=os.open('/data/deep', R)), 99))",
    "by the preopened descriptor": "print(os.read(os.open('.env', R, dir_fd=8), 99))",
    "with dots": "print(open('/data/deep/../.env').read())",
    "with doubled slashes": "print(open('/data//.//.env').read())",
    "through a link": "print(open('/data/notes').read())",
    "through two links": "print(open('/data/again').read())",
    "through a link to a folder": "print(open('/data/repository/config').read())",
    "through a link that goes up": "print(open('/data/deep/up/config').read())",
    "through a link to a shown folder": "print(open('/data/there/.hidden').read())",
    "through a link in a descriptor": "print(os.read(os.open('repository/config', R, dir_fd=os.open('/data', R)), 99))",
    "a link's folder as a descriptor": "print(os.read(os.open('config', R, dir_fd=os.open('/data/repository/', R)), 99))",
    "a link's folder listed": f"print({_SECRET!r} if os.listdir('/data/repository') else '')",
    "the size of a hidden file": f"print({_SECRET!r} if os.stat('/data/.env').st_size else '')",
    "the size behind a link": f"print({_SECRET!r} if os.stat('/data/notes').st_size else '')",
    "where a link leads": f"print({_SECRET!r} if os.readlink('/data/notes') else '')",
    "pandas": "import pandas as pd; print(pd.read_csv('/data/notes', header=None))",
    "change the folder": "os.chdir('/data'); print(open('.env').read())",
}
_STOPPED_BY_WASMTIME = {
    "link out": "print(open('/data/out.txt').read())",
    "folder link out": "print(open('/data/out/secret').read())",
    "dots out": "print(open('/data/../outside/secret').read())",
    "hard link": "os.link('/data/.env', '/app/mine'); print(open('/app/mine').read())",
    "move": "os.rename('/data/.env', '/app/mine'); print(open('/app/mine').read())",
}


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nimport os; R = os.O_RDONLY\n"))


class TestReadBeyondData(AttackTests):
    family = Family(
        _DataScene,
        [_attack(name, code) for name, code in _WAYS.items()],
        _everything_shown,
        in_depth=[_attack(name, code) for name, code in _STOPPED_BY_WASMTIME.items()],
    )
