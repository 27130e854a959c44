"""Names that some file system takes for the hidden one: none may come into being, in any way."""

from __future__ import annotations

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family
from tests.attacks.hidden_scene import HiddenScene, attack

_SPELLINGS = {
    "capitals": ".METADATA.JSON",
    "mixed case": ".Metadata.Json",
    "one capital": ".metadata.jSon",
    "long s": ".metadata.j\u017fon",
    "long s and capitals": ".METADATA.J\u017fON",
    "zero-width space at the end": ".metadata.json\u200b",
    "zero-width space inside": ".meta\u200bdata.json",
    "zero-width joiner": ".\u200dmetadata.json",
    "byte order mark": "\ufeff.metadata.json",
    "soft hyphen": ".meta\u00addata.json",
    "variation selector": ".metadata.json\ufe0f",
    "combining mark": ".me\u0301tadata.json",
    "right-to-left mark": ".metadata\u200f.json",
    "emoji inside": ".metadata\U0001f600.json",
    "trailing dot": ".metadata.json.",
    "trailing dots": ".metadata.json...",
    "trailing space": ".metadata.json ",
    "stream": ".metadata.json::$DATA",
    "stream with a name": ".metadata.json:hidden",
    "backup": ".metadata.json~",
    "swap file": ".metadata.json.swp",
    "temporary of the host": ".metadata.json.tmp-12345",
    "backslash behind": ".metadata.json\\x",
    "backslash before": "x\\.metadata.json",
    "newline": ".metadata.json\n",
    "in a folder": "sub/.metadata.json",
    "in a folder, in capitals": "folder/.METADATA.json",
}
_WAYS = {
    "open": "open('/app/' + NAME, 'w').close()",
    "mkdir": "os.mkdir('/app/' + NAME)",
    "rename": "os.rename('/app/own.txt', '/app/' + NAME)",
    "link": "os.symlink('own.txt', '/app/' + NAME)",
    "link to": "os.symlink(NAME, '/app/l')",
    "hard link": "os.link('/app/own.txt', '/app/' + NAME)",
}


def _attacks() -> list[Attack]:
    """Every spelling once, the ways by turns."""
    ways = list(_WAYS.items())
    return [
        attack(f"{spelling} ({way})", f"NAME = {name!r}\n{code}")
        for i, (spelling, name) in enumerate(_SPELLINGS.items())
        for way, code in [ways[i % len(ways)]]
    ]


class TestSpellHiddenName(AttackTests):
    family = Family(HiddenScene, _attacks(), guards.hidden_name_shown)
