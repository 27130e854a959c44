"""How fast printed lines arrive."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

from bench.native import environment
from bench.report import Section, milliseconds, number
from bench.rounds import interleave
from bench.setting import Setting, succeed
from wasm_kernel import Event, Stream

LINES = 100_000
_LOOP = f"for i in range({LINES}): print(i)"
_TEXT = "".join(f"{i}\n" for i in range(LINES))
_SIZE = len(_TEXT)
_NATIVE = f"import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n{_LOOP}\nsys.stdout.flush()"


def run(setting: Setting) -> Section:
    """Measure printing from a sandbox and from a native child."""
    with setting.sandbox() as sandbox:

        def guest() -> Mapping[str, float]:
            seen: list[tuple[float, int]] = []

            def on_event(event: Event) -> None:
                if isinstance(event, Stream):
                    seen.append((time.perf_counter(), len(event.text)))

            started = time.perf_counter()
            result = sandbox.execute(_LOOP, on_event=on_event)
            taken = time.perf_counter() - started
            succeed(result)
            if result.stdout != _TEXT or sum(size for _, size in seen) != _SIZE:
                raise RuntimeError("the guest's lines did not arrive as they were printed")
            return {"guest": taken, "guest first": seen[0][0] - started, "guest pieces": len(seen)}

        def native() -> Mapping[str, float]:
            # The process is there already: only the printing counts.
            with subprocess.Popen(
                [setting.native, "-c", _NATIVE],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdout.read(64)
                started = time.perf_counter()
                process.stdin.write(b"\n")
                first, size, pieces = 0.0, 0, 0
                while data := process.stdout.read(1 << 16):
                    first = first or time.perf_counter() - started
                    size, pieces = size + len(data), pieces + 1
                    if size == _SIZE:
                        break
                taken = time.perf_counter() - started
            if size != _SIZE:
                raise RuntimeError("some of the native process's lines are missing")
            return {"native": taken, "native first": first, "native pieces": pieces}

        found = interleave([guest, native], setting.rounds.prints, setting.tick)
    rows = [
        [
            label,
            milliseconds(found, key),
            number(LINES / found.median(key) / 1e3),
            milliseconds(found, f"{key} first"),
            f"{found.median(f'{key} pieces'):.0f}",
        ]
        for label, key in (("sandbox, `on_event`", "guest"), ("native CPython to a pipe", "native"))
    ]
    rows.append(["ratio", f"{number(found.ratio('guest', 'native'))}x", "", "", ""])
    return Section(
        "100,000 printed lines",
        f"`{_LOOP}`, until the last one has arrived, in ms.",
        ["", "median [best]", "thousand lines/s", "first piece arrives", "pieces"],
        rows,
    )
