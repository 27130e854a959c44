"""Seeing the hidden name in a listing: of every kind, at every size, while the folder changes."""

from __future__ import annotations

from tests.attacks import guards
from tests.attacks.harness import AttackTests, Family
from tests.attacks.hidden_scene import HiddenScene, attack

_LISTINGS = [
    attack("listdir", "print(LISTED, os.listdir('/app'))"),
    attack("listdir of bytes", "print(LISTED, os.listdir(b'/app'))"),
    attack("listdir of the current folder", "os.chdir('/app'); print(LISTED, os.listdir())"),
    attack("listdir with dots", "print(LISTED, os.listdir('/app/sub/..'))"),
    attack("listdir through a link", "os.symlink('.', '/app/here'); print(LISTED, os.listdir('/app/here'))"),
    attack("scandir", "print(LISTED, [e.name for e in os.scandir('/app')])"),
    attack("scandir and stat", "print(LISTED, [(e.name, e.stat().st_mtime) for e in os.scandir('/app')])"),
    attack("walk", "print(LISTED, list(os.walk('/app')))"),
    attack("walk upwards", "print(LISTED, list(os.walk('/app', topdown=False)))"),
    attack("glob", "import glob; print(LISTED, glob.glob('/app/.*'))"),
    attack("glob with hidden files", "import glob; print(LISTED, glob.glob('/app/*', include_hidden=True))"),
    attack("pathlib iterdir", "print(LISTED, list(pathlib.Path('/app').iterdir()))"),
    attack("pathlib rglob", "print(LISTED, list(pathlib.Path('/app').rglob('*')))"),
    attack("pathlib walk", "print(LISTED, list(pathlib.Path('/app').walk()))"),
    attack("filecmp", "import filecmp; print(LISTED, filecmp.dircmp('/app', '/tmp').left_list)"),
    attack("import machinery", """
from importlib.machinery import FileFinder
f = FileFinder('/app'); f._fill_cache(); print(LISTED, f._path_cache)
"""),
    attack("completion of a name", "print(LISTED, get_ipython().complete('.meta', 'open(\\'/app/.meta', 16))"),
    attack("tar names", """
import tarfile
with tarfile.open('/tmp/t.tar', 'w') as t: t.add('/app'); print(LISTED, t.getnames())
"""),
    attack("copytree's ignore callback", """
seen = []
shutil.copytree('/app', '/tmp/c', ignore=lambda d, names: seen.extend(names) or names); print(LISTED, seen)
"""),
    attack("many entries", """
for i in range(700): open(f'/app/f{i:03}-{"x" * (i % 60)}', 'w').close()
print(LISTED, os.listdir('/app'))
"""),
    attack("entries removed while listing", """
for i in range(400): open(f'/app/f{i:03}', 'w').close()
names = []
for e in os.scandir('/app'):
    names.append(e.name)
    if e.name.startswith('f') and e.is_file(): os.unlink(e.path)
print(LISTED, names)
"""),
    attack("entries made while listing", """
for i in range(200): open(f'/app/f{i:03}', 'w').close()
names = []
for i, e in enumerate(os.scandir('/app')):
    names.append(e.name)
    if i < 200: open(f'/app/g{i}', 'w').close()
print(LISTED, names)
"""),
    attack("entries renamed while listing", """
for i in range(200): open(f'/app/f{i:03}', 'w').close()
names = []
for i, e in enumerate(os.scandir('/app')):
    names.append(e.name)
    if e.name.startswith('f0'): os.rename(e.path, '/app/r' + e.name)
print(LISTED, names)
"""),
    attack("two listings at once", """
for i in range(300): open(f'/app/f{i:03}', 'w').close()
a, b = os.scandir('/app'), os.scandir('/app/sub/..')
print(LISTED, [(x.name, y.name) for x, y in zip(a, b)])
"""),
    attack("a descriptor reused while listing", """
for i in range(300): open(f'/app/f{i:03}', 'w').close()
a = os.scandir('/app/sub'); list(a); a.close()
b = os.scandir('/app'); next(b)
print(LISTED, [e.name for e in b], os.listdir('/app/folder'), os.listdir('/app'))
"""),
    attack("names at the end of each buffer", """
names = []
for width in range(1, 200, 11):
    open('/app/' + 'w' * width, 'w').close(); names += os.listdir('/app')
print(LISTED, names)
"""),
]  # fmt: skip


class TestListHiddenFile(AttackTests):
    family = Family(HiddenScene, _LISTINGS, guards.hidden_name_shown)
