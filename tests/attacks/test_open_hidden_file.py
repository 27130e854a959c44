"""Reading or writing the hidden file by opening it: every mode, every flag, every library that opens files."""

from __future__ import annotations

from tests.attacks import guards
from tests.attacks.harness import AttackTests, Family
from tests.attacks.hidden_scene import HiddenScene, attack

_MODES = [
    attack("open r", "print(open(P).read())"),
    attack("open rb", "print(open(P, 'rb').read())"),
    attack("open r+", "f = open(P, 'r+'); print(f.read())"),
    attack("open rb+ unbuffered", "f = open(P, 'rb+', buffering=0); f.write(b'!'); f.close()"),
    attack("open w", "open(P, 'w').write('gone')"),
    attack("open w+", "open(P, 'w+').close()"),
    attack("open a", "open(P, 'a').write('more')"),
    attack("open a+", "f = open(P, 'a+'); f.seek(0); print(f.read())"),
    attack("open x of a temporary name", "open(P + '.tmp-1', 'x').close()"),
    attack("open of the host's temporary", "print(open(T).read())"),
    attack("open w of the host's temporary", "open(T, 'w').close()"),
    attack("os.open O_RDONLY", "print(os.read(os.open(P, os.O_RDONLY), 1000))"),
    attack("os.open O_WRONLY", "os.write(os.open(P, os.O_WRONLY), b'!')"),
    attack("os.open O_RDWR", "f = os.open(P, os.O_RDWR); print(os.pread(f, 1000, 0))"),
    attack("os.open O_APPEND", "os.write(os.open(P, os.O_WRONLY | os.O_APPEND), b'!')"),
    attack("os.open O_TRUNC", "os.open(P, os.O_WRONLY | os.O_TRUNC)"),
    attack("os.open O_CREAT", "print(os.read(os.open(P, os.O_RDWR | os.O_CREAT), 1000))"),
    attack("os.open O_CREAT O_TRUNC", "os.open(P, os.O_RDWR | os.O_CREAT | os.O_TRUNC)"),
    attack("os.open O_CREAT O_EXCL of a new name", "os.open(P + '1', os.O_RDWR | os.O_CREAT | os.O_EXCL)"),
    attack("os.open O_NOFOLLOW", "print(os.read(os.open(P, os.O_RDONLY | os.O_NOFOLLOW), 1000))"),
    attack("os.open O_NONBLOCK", "print(os.read(os.open(P, os.O_RDONLY | os.O_NONBLOCK), 1000))"),
    attack("os.open then ftruncate", "os.ftruncate(os.open(P, os.O_WRONLY), 3)"),
    attack("os.open then pwrite", "os.pwrite(os.open(P, os.O_WRONLY), b'!', 5)"),
    attack("os.open then fstat", "print(os.fstat(os.open(P, os.O_RDONLY)).st_mtime)"),
    attack("io.FileIO", "print(io.FileIO(P).readall())"),
    attack("io.open_code", "print(io.open_code(P).read())"),
    attack("kept open over two executions", "print(f.read())", first="f = open(P)"),
]

_PATHS = [
    attack("relative", "os.chdir('/app'); print(open(N).read())"),
    attack("dot", "print(open('/app/./' + N).read())"),
    attack("doubled slashes", "print(open('//app///' + N).read())"),
    attack("dot dot", "print(open('/app/sub/../' + N).read())"),
    attack("dot dot twice", "print(open('/app/sub/../folder/.././' + N).read())"),
    attack("relative from a folder", "os.chdir('/app/sub'); print(open('../' + N).read())"),
    attack("bytes", "print(open(os.fsencode(P)).read())"),
    attack("folder descriptor", """
d = os.open('/app', os.O_RDONLY); print(os.read(os.open(N, os.O_RDONLY, dir_fd=d), 1000))
"""),
    attack("the preopened descriptor", "print(os.read(os.open(N, os.O_RDONLY, dir_fd=10), 1000))"),
    attack("every descriptor there is", """
for d in range(3, 60):
    try: print(os.read(os.open(N, os.O_RDONLY, dir_fd=d), 1000))
    except OSError: pass
"""),
]  # fmt: skip

_OPENERS = [
    attack("pathlib read_text", "print(pathlib.Path(P).read_text())"),
    attack("pathlib write_bytes", "pathlib.Path(P).write_bytes(b'!')"),
    attack("pathlib touch", "pathlib.Path(P).touch()"),
    attack("pathlib copy", "pathlib.Path(P).copy('/app/copy')"),
    attack("codecs", "import codecs; print(codecs.open(P, encoding='utf-8').read())"),
    attack("tokenize", "import tokenize; print(tokenize.open(P).read())"),
    attack("linecache", "import linecache; print(linecache.getlines(P))"),
    attack("fileinput", "import fileinput; print(list(fileinput.input(P)))"),
    attack("fileinput in place", "import fileinput\nfor line in fileinput.input(P, inplace=True): print('x')"),
    attack("import machinery", "from importlib.machinery import SourceFileLoader as L; print(L('m', P).get_data(P))"),
    attack("configparser", "import configparser; configparser.ConfigParser().read_file(open(P))"),
    attack("logging", "import logging; logging.FileHandler(P).close(); logging.FileHandler(P, mode='w').close()"),
    attack("shutil.copy", "shutil.copy(P, '/app/copy')"),
    attack("shutil.copyfile", "shutil.copyfile(P, '/tmp/copy')"),
    attack("shutil.copyfile onto it", "shutil.copyfile('/app/own.txt', P)"),
    attack("shutil.copy2", "shutil.copy2(P, '/app/sub')"),
    attack("shutil.copystat onto it", "shutil.copystat('/app/own.txt', P)"),
    attack("shutil.move", "shutil.move(P, '/app/moved')"),
    attack("shutil.move onto it", "shutil.move('/app/own.txt', P)"),
    attack("shutil.copytree", "shutil.copytree('/app', '/tmp/tree')"),
    attack("shutil.make_archive", "shutil.make_archive('/tmp/all', 'tar', '/app')"),
    attack("tarfile", "import tarfile\nwith tarfile.open('/tmp/t.tar', 'w') as t: t.add(P)"),
    attack("tarfile of the folder", "import tarfile\nwith tarfile.open('/tmp/t.tar', 'w') as t: t.add('/app')"),
    attack("tarfile extracted onto it", """
import tarfile
data = tarfile.TarInfo(N); data.size = 4
with tarfile.open('/tmp/t.tar', 'w') as t: t.addfile(data, io.BytesIO(b'gone'))
tarfile.open('/tmp/t.tar').extractall('/app')
"""),
    attack("zipfile", """
import zipfile
with zipfile.ZipFile('/tmp/z.zip', 'w') as z: z.write(P)
print(zipfile.ZipFile('/tmp/z.zip').read('app/' + N))
"""),
    attack("zipfile extracted onto it", """
import zipfile
with zipfile.ZipFile('/tmp/z.zip', 'w') as z: z.writestr(N, 'gone')
zipfile.ZipFile('/tmp/z.zip').extractall('/app')
"""),
    attack("numpy.tofile", "import numpy; numpy.zeros(3).tofile(P)"),
    attack("numpy.loadtxt", "import numpy; print(numpy.loadtxt(P, dtype=str))"),
    attack("numpy.genfromtxt", "import numpy; print(numpy.genfromtxt(P, dtype=str))"),
    attack("numpy.save", "import numpy; numpy.save(P, numpy.zeros(3))"),
    attack("pandas.read_csv", "import pandas; print(pandas.read_csv(P, header=None).to_string())"),
    attack("pandas.to_csv", "import pandas; pandas.DataFrame([1]).to_csv(P)"),
    attack("sqlite3 new database", "import sqlite3; sqlite3.connect(P + '.db').execute('create table t(x)')"),
    attack("sqlite3 attach", """
import sqlite3
sqlite3.connect(':memory:').execute('attach ? as a', (P + '2',)).execute('create table a.t(x)')
"""),
    attack("sqlite3 vacuum into", """
import sqlite3
c = sqlite3.connect(':memory:'); c.execute('create table t(x)'); c.commit(); c.execute('vacuum into ?', (P + '-v',))
"""),
    attack("dbm", "import dbm.dumb; dbm.dumb.open(P, 'n').close()"),
    attack("shelve", "import shelve; s = shelve.open(P + 's', 'n'); s['x'] = 1; s.close()"),
    attack("tempfile file", "import tempfile; tempfile.NamedTemporaryFile(prefix=N, dir='/app', delete=False)"),
    attack("tempfile folder", "import tempfile; tempfile.mkdtemp(prefix=N, dir='/app')"),
    attack("magic writefile", "get_ipython().run_cell_magic('writefile', P, 'gone')"),
    attack("magic pycat", "get_ipython().run_line_magic('pycat', P)"),
    attack("magic load", "get_ipython().run_line_magic('load', P)"),
    attack("magic cd and open", "get_ipython().run_line_magic('cd', '/app/sub'); print(open('../' + N).read())"),
    attack("matplotlib savefig", "import matplotlib.pyplot as plt; plt.figure(figsize=(1, 1)).savefig(P + '.png')"),
    attack("traceback of a fake file", """
import traceback
try: exec(compile('1/0', P, 'exec'))
except ZeroDivisionError: traceback.print_exc()
"""),
]  # fmt: skip

_STOPPED_BY_OTHERS = [
    attack("os.open O_EXCL of the name itself", "os.open(P, os.O_RDWR | os.O_CREAT | os.O_EXCL)"),
    attack("os.open O_DIRECTORY", "print(os.open(P, os.O_RDONLY | os.O_DIRECTORY))"),
    attack("trailing slash", "print(open(P + '/').read())"),
    attack("through another mount", "print(open('/tmp/../app/' + N).read())"),
    attack("above the root", "print(open('/app/../app/' + N).read())"),
    attack("name with a NUL", "print(open('/app/own.txt\\0' + N).read())"),
    attack("overlong path", "print(open('/app/' + 'sub/../' * 1000 + N).read())"),
    attack(
        "folder descriptor and dots", "print(os.open('../' + N, os.O_RDONLY, dir_fd=os.open('/app/sub', os.O_RDONLY)))"
    ),
    attack("numpy.fromfile", "import numpy; print(bytes(numpy.fromfile(P, dtype='u1')))"),
    attack("numpy.memmap", "import numpy; print(bytes(numpy.memmap(P, mode='r')))"),
    attack("bytes that are no UTF-8", "open(b'/app/.metadata\\xff.json', 'w').close()"),
]


class TestOpenHiddenFile(AttackTests):
    family = Family(HiddenScene, [*_MODES, *_PATHS, *_OPENERS], guards.hidden_name_shown, _STOPPED_BY_OTHERS)
