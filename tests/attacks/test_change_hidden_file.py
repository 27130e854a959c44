"""Finding, changing, moving, replacing and linking the hidden file without opening it."""

from __future__ import annotations

from tests.attacks import guards
from tests.attacks.harness import AttackTests, Family
from tests.attacks.hidden_scene import HiddenScene, attack

_LOOKS = [
    attack("stat", "print(os.stat(P).st_mtime)"),
    attack("lstat", "print(os.lstat(P).st_mtime)"),
    attack("stat by folder descriptor", "print(os.stat(N, dir_fd=os.open('/app', os.O_RDONLY)).st_mtime)"),
    attack("stat of the host's temporary", "print(os.stat(T).st_mtime)"),
    attack("getmtime", "print(os.path.getmtime(P))"),
    attack("pathlib stat", "print(pathlib.Path(P).stat().st_mtime)"),
    attack("samestat through a link", "os.symlink(N, '/app/l'); print(os.stat('/app/l').st_mtime)"),
]

_CHANGES = [
    attack("utime", "os.utime(P, (1, 1))"),
    attack("utime without following", "os.utime(P, (1, 1), follow_symlinks=False)"),
    attack("utime by folder descriptor", "os.utime(N, (1, 1), dir_fd=os.open('/app', os.O_RDONLY))"),
    attack("truncate", "os.truncate(P, 0)"),
    attack("truncate upwards", "os.truncate(P, 10000)"),
    attack("unlink", "os.unlink(P)"),
    attack("unlink by folder descriptor", "os.unlink(N, dir_fd=os.open('/app', os.O_RDONLY))"),
    attack("unlink of the host's temporary", "os.unlink(T)"),
    attack("pathlib unlink", "pathlib.Path(P).unlink()"),
    attack("rmtree of the workspace", "shutil.rmtree('/app', ignore_errors=True)"),
    attack("unlink everything listed", """
for d, _, names in os.walk('/app'):
    for n in names: os.unlink(os.path.join(d, n))
"""),
    attack("mkdir", "os.unlink(P); os.mkdir(P)"),
    attack("mkdir of a name that begins so", "os.mkdir(P + '.d')"),
    attack("makedirs below it", "os.makedirs(P + '.d/e')"),
    attack("mkdir in a folder", "os.mkdir('/app/sub/' + N)"),
]  # fmt: skip

_MOVES = [
    attack("rename away", "os.rename(P, '/app/stolen')"),
    attack("rename away into a folder", "os.rename(P, '/app/sub/stolen')"),
    attack("rename away by folder descriptor", """
d = os.open('/app', os.O_RDONLY)
os.rename(N, 'stolen', src_dir_fd=d, dst_dir_fd=d)
"""),
    attack("rename of the host's temporary", "os.rename(T, '/app/stolen')"),
    attack("rename of the temporary onto it", "os.rename(T, P)"),
    attack("rename a file onto it", "os.rename('/app/own.txt', P)"),
    attack("replace it", "os.replace('/app/own.txt', P)"),
    attack("replace the host's temporary", "os.replace('/app/own.txt', T)"),
    attack("rename a folder onto it", "os.unlink(P); os.rename('/app/folder', P)"),
    attack("rename a folder to a name that begins so", "os.rename('/app/folder', P + '.old')"),
    attack("rename a file in a folder", "os.rename('/app/own.txt', '/app/folder/' + N)"),
    attack("rename onto a path with dots", "os.rename('/app/own.txt', '/app/sub/../' + N)"),
    attack("renames", "os.renames(P, '/app/new/stolen')"),
    attack("pathlib rename", "pathlib.Path(P).rename('/app/stolen')"),
    attack("pathlib replace", "pathlib.Path('/app/own.txt').replace(P)"),
    attack("pathlib move", "pathlib.Path(P).move('/app/stolen')"),
]  # fmt: skip

_LINKS = [
    attack("hard link and read", "os.link(P, '/app/l'); print(open('/app/l').read())"),
    attack("hard link in a folder", "os.link(P, '/app/sub/l')"),
    attack("hard link of the temporary", "os.link(T, '/app/l')"),
    attack("hard link made and removed", "os.link(P, '/app/l'); os.unlink('/app/l')"),
    attack("hard link under a name that begins so", "os.link('/app/own.txt', P + '.bak')"),
    attack("pathlib hardlink_to", "pathlib.Path('/app/l').hardlink_to(P)"),
    attack("link", "os.symlink(N, '/app/l'); print(open('/app/l').read())"),
    attack("link written", "os.symlink(N, '/app/l'); open('/app/l', 'w').close()"),
    attack("link by folder descriptor", "os.symlink(N, 'l', dir_fd=os.open('/app', os.O_RDONLY))"),
    attack("link in a folder", "os.symlink('../' + N, '/app/sub/l'); print(open('/app/sub/l').read())"),
    attack("link with dots", "os.symlink('sub/../' + N, '/app/l'); print(open('/app/l').read())"),
    attack("link chained", "os.symlink(N, '/app/a'); os.symlink('a', '/app/b'); print(open('/app/b').read())"),
    attack("link chained backwards", "os.symlink('b', '/app/a'); os.symlink(N, '/app/b'); print(*open('/app/a'))"),
    attack("link dangling", "os.symlink(N + '.next', '/app/l')"),
    attack("link to the folder itself", "os.symlink('.', '/app/here'); print(open('/app/here/' + N).read())"),
    attack("link to the folder, twice", "os.symlink('.', '/app/a'); print(open('/app/a/a/./' + N).read())"),
    attack("link named so", "os.symlink('own.txt', P + '.lnk')"),
    attack("link named so in a folder", "os.symlink('inner.txt', '/app/folder/' + N)"),
    attack("link replaced while open", """
os.symlink('own.txt', '/app/l'); f = os.open('/app/l', os.O_RDONLY); os.unlink('/app/l')
os.symlink(N, '/app/l'); print(open('/app/l').read())
"""),
    attack("link to the parent", "os.symlink('..', '/app/sub/up'); print(open('/app/sub/up/' + N).read())"),
    attack("link spelt in capitals", "os.symlink('.METADATA.JSON', '/app/l')"),
]  # fmt: skip

_STOPPED_BY_OTHERS = [
    attack("access", "print('exists!' if os.access(P, os.F_OK) else '')"),
    attack("chmod", "os.chmod(P, 0o777)"),
    attack("chmod through pathlib", "pathlib.Path(P).chmod(0o777)"),
    attack("rmdir", "os.rmdir(P)"),
    attack("link with an absolute target", "os.symlink(P, '/app/l'); print(open('/app/l').read())"),
    attack("rename the workspace", "os.rename('/app', '/tmp/app')"),
    attack("rename to another mount", "os.rename(P, '/tmp/stolen')"),
    attack("hard link to another mount", "os.link(P, '/tmp/l')"),
    attack("dup2 over a descriptor", "os.dup2(9, 20)"),
]


class TestChangeHiddenFile(AttackTests):
    family = Family(
        HiddenScene, [*_LOOKS, *_CHANGES, *_MOVES, *_LINKS], guards.hidden_name_shown, in_depth=_STOPPED_BY_OTHERS
    )
