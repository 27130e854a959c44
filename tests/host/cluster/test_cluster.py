"""Workers on a real Dask cluster of separate processes: what pools promise is kept there, too."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import dask
import pytest

from tests.host.cluster.clusters import Attached, DaskCluster, until
from tests.host.network.servers import make_authority
from wasm_kernel.errors import ClusterError
from wasm_kernel.guest import wire
from wasm_kernel.host.cluster import connection, runner
from wasm_kernel.host.cluster.captured_fork import CapturedFork
from wasm_kernel.host.cluster.session_cluster import SessionCluster
from wasm_kernel.host.image import image, older_images

Attach = Callable[..., Attached]
OwnCluster = Callable[..., DaskCluster]
POOL = "import os, time\nfrom concurrent.futures import ProcessPoolExecutor\n"


@pytest.fixture(scope="module")
def guest(cluster: DaskCluster, tmp_path_factory: pytest.TempPathFactory) -> object:
    found = Attached(cluster.address, tmp_path_factory.mktemp("app"))
    found.ok(POOL)
    yield found
    found.close()


# ---- what pools promise


def test_calls_run_on_the_workers_with_what_the_notebook_has(guest: Attached) -> None:
    (guest.folder / "a.txt").write_text("text")
    printed = guest.ok(
        "offset = 100\n"
        "def f(k): return offset + k, open('/app/a.txt').read(), os.getpid()\n"
        "with ProcessPoolExecutor() as pool: found = list(pool.map(f, range(6)))\n"
        "print([each[:2] for each in found], len({each[2] for each in found}), os.getpid() in {e[2] for e in found})"
    )
    assert printed == f"{[(100 + k, 'text') for k in range(6)]} 2 False\n"
    assert os.listdir(guest.folder) == ["a.txt"]


def test_a_function_defined_anew_is_the_one_that_runs(guest: Attached) -> None:
    printed = guest.ok(
        "pool = ProcessPoolExecutor()\n"
        "for n in range(3):\n    def f(k): return n * 10 + k\n    print(list(pool.map(f, range(2))))\npool.shutdown()"
    )
    assert printed == "[0, 1]\n[10, 11]\n[20, 21]\n"


def test_multiprocessing_and_joblib_run_there_too(guest: Attached) -> None:
    assert (
        guest.ok("import multiprocessing\nwith multiprocessing.Pool() as p: print(p.map(abs, [-1, -2]))") == "[1, 2]\n"
    )
    code = (
        "from joblib import Parallel, delayed\ndef who(): return os.getpid()\n"
        "pids = Parallel(n_jobs=-1)(delayed(who)() for _ in range(4))\nprint(os.getpid() in pids, os.cpu_count())"
    )
    assert guest.ok(code) == "False 2\n"


def test_an_initializer_runs_once_in_each_worker(guest: Attached) -> None:
    printed = guest.ok(
        "ready = []\ndef begin(x): ready.append(x)\ndef f(k): return list(ready)\n"
        "with ProcessPoolExecutor(initializer=begin, initargs=(7,)) as pool: print(list(pool.map(f, range(4))))"
    )
    assert printed == "[[7], [7], [7], [7]]\n"


def test_workers_that_leave_after_some_calls_are_replaced(guest: Attached) -> None:
    code = "with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool: print(list(pool.map(abs, range(5))))"
    assert guest.ok(code) == "[0, 1, 2, 3, 4]\n"


def test_random_numbers_differ_and_are_the_same_each_time(guest: Attached) -> None:
    code = (
        "import random\nrandom.seed(1)\ndef f(k): return random.random()\n"
        "with ProcessPoolExecutor() as pool: print(list(pool.map(f, range(4))))"
    )
    once = guest.ok(code)
    assert once == guest.ok(code)
    assert len(set(once.strip("[]\n").split(", "))) == 4


def test_what_calls_print_appears_in_their_order(guest: Attached) -> None:
    printed = guest.ok(
        "def f(k):\n    print(k, 'begins')\n    print(k, 'ends')\n"
        "with ProcessPoolExecutor() as pool: list(pool.map(f, range(4)))"
    ).splitlines()
    assert sorted(printed) == sorted(f"{k} {what}" for k in range(4) for what in ("begins", "ends"))
    assert all(
        printed[at : at + 2] == [f"{line[0]} begins", f"{line[0]} ends"]
        for at, line in enumerate(printed[::2])
        for at in [2 * at]
    )


def test_an_exception_is_raised_here_with_its_traceback(guest: Attached) -> None:
    result = guest.run("def f(k): return {}[k]\nwith ProcessPoolExecutor() as pool: list(pool.map(f, range(2)))")
    assert result.error is not None and result.error.name == "KeyError"
    assert "RemoteTraceback" in "".join(result.error.traceback)


@pytest.mark.parametrize(("how", "reason"), [("os.abort()", "it aborted"), ("os._exit(7)", "exit code 7")])
def test_a_call_that_crashes_breaks_its_pool_and_nothing_else(guest: Attached, how: str, reason: str) -> None:
    result = guest.run(f"kept = 1\ndef f(k): {how}\nwith ProcessPoolExecutor() as pool: pool.submit(f, 1).result()")
    assert result.error is not None and result.error.name == "BrokenProcessPool"
    assert reason in result.error.value
    assert guest.ok("with ProcessPoolExecutor() as pool: print(kept, *pool.map(abs, [-1, -2, -3]))") == "1 1 2 3\n"


def test_files_that_calls_write_stay_there_and_a_notice_says_so(guest: Attached) -> None:
    result = guest.run(
        "def f(k): open(f'/app/{k}.txt', 'w').write('x')\nwith ProcessPoolExecutor() as pool: list(pool.map(f, [1, 2]))"
    )
    assert result.success and "they stay there" in result.stderr
    assert not [name for name in os.listdir(guest.folder) if name in ("1.txt", "2.txt")]


def test_large_data_is_sent_once(guest: Attached) -> None:
    sent = guest.cluster.connection
    code = (
        "def f(k): return int(data[::1000].sum())\nwith ProcessPoolExecutor() as p: print(len(set(p.map(f, range(4)))))"
    )
    guest.ok("import numpy as np\ndata = np.random.default_rng(1).integers(0, 1 << 60, 4_000_000)")
    before = sent.sent_bytes
    assert guest.ok(code) == "1\n"
    first = sent.sent_bytes - before
    assert 30e6 < first < 50e6
    guest.ok("data[5] = 1")
    before = sent.sent_bytes
    assert guest.ok(code) == "1\n"
    assert sent.sent_bytes - before < 5e6


def test_a_worker_that_has_lost_what_it_had_is_given_it_again(guest: Attached) -> None:
    guest.ok("with ProcessPoolExecutor() as pool: list(pool.map(abs, range(2)))")
    sent = guest.cluster.connection.sent
    for address in sent:
        sent[address] |= set(map(os.urandom, [32] * 3))
    guest.ok("other = os.urandom(300_000)")
    before = {address: set(names) for address, names in sent.items()}

    class All(set):  # the host believes that they have everything
        def __rsub__(self, other: object) -> frozenset[bytes]:
            return frozenset()

    for address in sent:
        sent[address] = All()
    assert guest.ok("with ProcessPoolExecutor() as pool: print(*pool.map(len, [other] * 2))") == "300000 300000\n"
    sent.update(before)


def test_a_result_that_a_guest_forges_is_never_opened_outside_of_a_guest(
    guest: Attached, tmp_path: Path, cluster: DaskCluster
) -> None:
    marker = tmp_path / "opened"
    bomb = f"b\"cposix\\nsystem\\n(S'touch {marker}'\\ntR.\""
    forge = "def f(k):\n    import _host, wasm_guest.wire as wire\n    for task in range(4):\n        try: _host.call("
    forge += f"wire.encode_event(wire.TaskDone(task, STATUS, ({bomb},))))\n        except OSError: pass\n    return 'honest'\n"
    run = "with ProcessPoolExecutor() as pool: print(pool.submit(f, 1).result())"
    for status in (0, 1, 9):
        result = guest.run(forge.replace("STATUS", str(status)) + run)
        assert not result.success, "the forged result was taken for one"
        assert guest.ok("with ProcessPoolExecutor() as pool: print(*pool.map(abs, [-1, -2]))") == "1 2\n"
    assert pickle.loads(f"cposix\nsystem\n(S'touch {marker}'\ntR.".encode()) == 0  # it would work
    assert marker.exists()
    marker.unlink()
    guest.run(forge.replace("STATUS", "1") + run)
    assert not marker.exists()


def test_a_copy_that_does_not_come_back_for_its_next_call_is_replaced(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster, timeout_seconds=40.0)
    forge = "import pickle, _host, wasm_guest.wire as wire\ndef f(k):\n    _host.call(wire.encode_event(wire.TaskDone(k, 1, "
    forge += "(pickle.dumps(k),))))\n    while True: pass\n"
    calls = "with ProcessPoolExecutor() as pool:\n    print(pool.submit(f, 0).result())\n    print(*pool.map(abs, range(6)))"
    assert guest.ok(POOL + forge + calls) == "0\n0 1 2 3 4 5\n"


# ---- who may run what


def test_another_image_is_refused_and_says_what_to_do(guest: Attached, cluster: DaskCluster) -> None:
    img = image.load()
    other = SimpleNamespace(key="0123456789", memory=img.memory)
    with pytest.raises(ClusterError, match="install the same version of wasm-kernel there and here"):
        SessionCluster(cluster.address, other)
    apart = f"{older_images.inputs_of(img.key)}-0123456789ab"
    with pytest.raises(ClusterError, match=f"needs {apart}: they are builds of the same image.*image pack"):
        SessionCluster(cluster.address, SimpleNamespace(key=apart, memory=img.memory))
    with mock.patch.object(img, "key", apart):
        result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(abs, [-1]))")
    assert result.error is not None and result.error.name == "BrokenProcessPool"
    assert "wasm-kernel image pack" in result.error.value and "127.0.0.1" not in result.error.value


def tls_of_a_client(ca: str, cert: str, key: str) -> dict[str, str]:
    return {f"distributed.comm.tls.{n}": v for n, v in {"ca-file": ca, "client.cert": cert, "client.key": key}.items()}


def test_encrypted_and_only_with_a_certificate(
    own_cluster: OwnCluster, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_authority(tmp_path / "tls", "127.0.0.1")
    ca, cert, key = (str(tmp_path / "tls" / name) for name in ("authority.pem", "server.pem", "server.key"))
    cluster = own_cluster(scheme="tls", options=("--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key))
    cluster.add()
    assert cluster.address.startswith("tls://")
    with pytest.raises(ClusterError, match="no Dask scheduler that answers"):
        attach(cluster)
    with dask.config.set(tls_of_a_client(ca, cert, key)):
        guest = attach(cluster)
        printed = guest.ok(POOL + "with ProcessPoolExecutor() as pool: print(*pool.map(abs, [-1, -2]))")
    assert printed == "1 2\n"
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 2.0)
    make_authority(tmp_path / "others", "127.0.0.1")
    cert, key = (str(tmp_path / "others" / name) for name in ("server.pem", "server.key"))
    with (
        dask.config.set(tls_of_a_client(ca, cert, key)),
        pytest.raises(ClusterError, match="that answers|does not answer"),
    ):
        attach(cluster)


# ---- stopping


def test_interrupting_a_map_stops_the_calls(guest: Attached) -> None:
    guest.ok("def f(k):\n    end = time.monotonic() + 300\n    while time.monotonic() < end: pass")
    began = time.monotonic()
    timer = threading.Timer(1.0, guest.sandbox.interrupt)
    timer.start()
    result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(f, range(4)))")
    assert result.outcome.kind.value == "interrupted" or (result.error and result.error.name == "KeyboardInterrupt")
    # Both workers are free again: they run one call at a time.
    assert guest.ok("with ProcessPoolExecutor() as pool: print(*pool.map(abs, range(4)))") == "0 1 2 3\n"
    assert time.monotonic() - began < 200


def test_the_time_limit_holds_for_the_calls_cpu_time(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster, timeout_seconds=5.0)
    result = guest.run(
        POOL + "def f(k):\n    while True: pass\nwith ProcessPoolExecutor() as p: list(p.map(f, range(2)))"
    )
    assert not result.success
    assert guest.ok("print(1)") == "1\n"


def anonymous_bytes(cluster: DaskCluster) -> list[int]:
    """Memory of its own that each worker has."""
    texts = [Path(f"/proc/{worker.pid}/status").read_text() for worker in cluster.processes[1:]]
    return [int(text.partition("RssAnon:")[2].split()[0]) << 10 for text in texts]


def test_pools_of_a_session_share_its_memory_on_a_worker(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster, memory_bytes=640 << 20)
    guest.ok(
        POOL + "import numpy\nheld = []\ndef hold(k):\n    held.append(numpy.ones(16 << 20))\n    return len(held)"
    )
    before, found = anonymous_bytes(cluster), []

    def look() -> None:
        until((guest.folder / "held").exists)
        found.extend(anonymous_bytes(cluster))
        (guest.folder / "go").touch()

    looking = threading.Thread(target=look)
    looking.start()
    code = "pools = [ProcessPoolExecutor(1) for _ in range(10)]\nprint(*[pool.submit(hold, 0).result() for pool in pools])\n"
    assert (
        guest.ok(code + "open('held', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)")
        == f"{'1 ' * 9}1\n"
    )
    looking.join()
    assert max(now - then for now, then in zip(found, before, strict=True)) < 300 << 20, (before, found)


def test_pools_of_a_session_share_its_room_on_a_workers_disk(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster, workspace_bytes=24 << 20)
    fill = (
        "def fill(k):\n    for n in range(4):\n        try: open(f'{k}-{n}', 'wb').write(bytes(8 << 20))\n"
        "        except OSError: return n\n    return 4\n"
    )
    code = "pools = [ProcessPoolExecutor(1) for _ in range(4)]\n"
    printed = guest.ok(POOL + fill + code + "print(sum(pool.submit(fill, k).result() for k, pool in enumerate(pools)))")
    assert 0 < int(printed) <= 2 * 24 // 8, "on two workers"


def test_a_cell_has_few_forks_at_a_time_however_many_pools_and_functions(guest: Attached) -> None:
    alive, most = set(), []

    class Counted(CapturedFork):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            alive.add(self)
            most.append(len(alive))

        def close(self) -> None:
            super().close()
            alive.discard(self)

    with mock.patch.object(runner, "CapturedFork", Counted):
        printed = guest.ok(
            POOL + "found = []\npools = [ProcessPoolExecutor(1) for _ in range(7)]\n"
            "calls = [pool.submit(abs, -k) for k, pool in enumerate(pools)]\n"
            "for k in range(7):\n    def f(): return k\n    found.append(pools[k % 2].submit(f).result())\n"
            "print([call.result() for call in calls] == found == list(range(7)))"
        )
    assert printed == "True\n"
    assert max(most) <= runner._MOST_FORKS < len(most)


# ---- ends of workers and of clusters


def test_a_worker_killed_during_a_map_of_200_calls_loses_none(cluster: DaskCluster, attach: Attach) -> None:
    third = cluster.add()
    guest = attach(cluster)
    guest.ok(POOL + "def f(k):\n    time.sleep(0.05)\n    return k, os.getpid()")

    def kill() -> None:
        until(lambda: [e for e in guest.events if isinstance(e, wire.DisplayData | wire.UpdateDisplay)])
        third.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    code = (
        "with ProcessPoolExecutor() as pool:\n    futures = [pool.submit(f, k) for k in range(200)]\n"
        "    found = [future.result() for future in futures]\n"
        "print([each[0] for each in found] == list(range(200)), len({each[1] for each in found}))"
    )
    printed = guest.ok(code)
    killer.join()
    assert printed.startswith("True ")
    assert third.wait(60) == -signal.SIGKILL
    assert len(guest.cluster.members()) == 2


def test_a_local_cluster_whose_worker_is_killed_and_started_again(attach: Attach) -> None:
    command = [sys.executable, "-m", "tests.host.cluster.local_cluster"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as local:
        assert local.stdout is not None
        address, pids = json.loads(local.stdout.readline())
        guest = attach(SimpleNamespace(address=address))
        guest.ok(POOL + "def f(k):\n    time.sleep(0.02)\n    return k")

        def kill() -> None:
            until(lambda: [e for e in guest.events if isinstance(e, wire.DisplayData | wire.UpdateDisplay)])
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        printed = guest.ok("with ProcessPoolExecutor() as p: print(list(p.map(f, range(200))) == list(range(200)))")
        killer.join()
        assert printed == "True\n"
        guest.close()


def test_a_worker_that_joins_during_a_map_gets_work(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster)
    cell = "def f(k):\n    time.sleep(0.2)\n    return os.getpid()\nwith ProcessPoolExecutor(6) as pool:\n    pids = set()\n    "
    cell += "while len(pids) < 3: pids |= set(pool.map(f, range(9)))\nprint(len(pids))"
    joined: list[subprocess.Popen[bytes]] = []
    timer = threading.Timer(1.0, lambda: joined.append(cluster.add(wait=False)))
    timer.start()
    assert guest.ok(POOL + cell) == "3\n"
    timer.join()
    joined[0].kill()
    joined[0].wait()
    until(lambda: len(guest.cluster.members()) == 2)


def test_a_cluster_without_workers_or_none_at_all_says_so_and_one_that_goes_away_breaks_the_pool(
    own_cluster: OwnCluster, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = own_cluster()
    with pytest.raises(ClusterError, match="has no workers; start some: wasm-kernel worker tcp://"):
        attach(cluster)
    cluster.add()
    guest = attach(cluster)
    monkeypatch.setattr(runner, "_GONE_AFTER", 2.0)
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 2.0)
    guest.ok(POOL + "kept = 1\ndef f(k): time.sleep(300)")
    timer = threading.Timer(2.0, cluster.close)
    timer.start()
    result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(f, range(4)))")
    timer.join()
    assert result.error is not None and result.error.name == "BrokenProcessPool"
    assert "cannot be reached any more" in result.error.value and "127.0.0.1" not in result.error.value
    assert guest.ok("print(kept)") == "1\n"
    with pytest.raises(ClusterError, match="cannot be reached any more.* connects anew"):
        guest.cluster.members()
    until(lambda: guest.cluster.connection.client.status == "closed")
    with pytest.raises(ClusterError, match="cannot be reached any more. `%session cluster tcp"):
        guest.cluster.members()
    guest.cluster.close()
    guest.sandbox.workers_elsewhere = None
    assert guest.ok("with ProcessPoolExecutor() as pool: print(*pool.map(abs, [-1, -2]))") == "1 2\n"
    with pytest.raises(ClusterError, match="no Dask scheduler that answers"):
        attach(cluster)


def test_an_interrupt_works_while_the_cluster_is_gone(cluster: DaskCluster, attach: Attach) -> None:
    guest = attach(cluster)
    guest.ok(POOL)
    running = [process for process in cluster.processes if process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGSTOP)
    try:
        timer = threading.Timer(1.0, guest.sandbox.interrupt)
        timer.start()
        result = guest.run("with ProcessPoolExecutor() as pool: list(pool.map(abs, range(4)))")
        assert result.error is not None and result.error.name in ("KeyboardInterrupt", "BrokenProcessPool")
    finally:
        for process in running:
            process.send_signal(signal.SIGCONT)
    assert not any(process.poll() for process in running)
    assert guest.ok("with ProcessPoolExecutor() as pool: print(*pool.map(abs, [-1, -2]))") == "1 2\n"
