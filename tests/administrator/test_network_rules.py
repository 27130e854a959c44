"""The administrator's rule about hosts, and every way around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import WITHOUT_RULES, Environment
from tests.conformance.client import Kernel
from tests.host.network.servers import Server, http_server
from wasm_kernel.errors import NotAllowed
from wasm_kernel.model.administrator import combined, parse
from wasm_kernel.model.network_grants import parse_all

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def web() -> Iterator[Server]:
    with http_server() as server:
        yield server


def hosts(kernel: Kernel) -> list[str]:
    return list(ast.literal_eval(kernel.ok("s = %session info\nprint(s['network'])").stdout))


@pytest.mark.parametrize("rule", ["network = false", 'network = ["*.wikipedia.org"]', "grants = []"])
def test_nobody_connects_beyond_it(fresh: Environment, start: Start, rule: str, web: Server) -> None:
    host = f"localhost:{web.port}"
    get = f"import urllib.request; print(urllib.request.urlopen('http://{host}/').status)"
    before = start(WASM_KERNEL_SESSION="mine")
    before.ok(f"%session allow {host}", answers=("yes",))
    assert before.ok(get).stdout == "200\n"
    before.stop()
    fresh.rule(rule)
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="network")
    assert hosts(kernel) == [], "what was allowed before the rule"
    assert kernel.run(get).reply["ename"] == "URLError"
    said = kernel.run("%session allow localhost:1", answers=("yes",)).said
    assert "administrator" in said
    assert str(fresh.file) in said
    kernel.stop()
    if "grants" not in rule:
        fresh.configure(f"c.WasmKernel.network = ['{host}']\n")
        assert start(WASM_KERNEL_SESSION="mine").run(get).reply["ename"] == "URLError", "nor the configuration"
    assert start(WASM_KERNEL_SESSION="other2", **WITHOUT_RULES).run(f"%session allow {host}", answers=("yes",)).ok


def test_within_it_a_person_may(fresh: Environment, start: Start, web: Server) -> None:
    fresh.rule(f'network = ["localhost:{web.port}", "*.wikipedia.org"]')
    kernel = start()
    assert kernel.run("%session allow en.wikipedia.org *.de.wikipedia.org:443", answers=("yes",)).ok
    assert hosts(kernel) == ["*.de.wikipedia.org:443", "en.wikipedia.org"]
    assert "allows these hosts only" in kernel.run("%session allow wikipedia.org", answers=("yes",)).said
    for rule in ("grants = []", "network = false"):
        fresh.rule(rule)
        assert hosts(kernel) == [], "a rule that comes while a kernel runs counts"


def test_limits_have_maxima(fresh: Environment, start: Start) -> None:
    fresh.rule('transfer = "1M"\nconnections = 2\nconnect = 5\ntraffic = "2M"')
    kernel = start()
    for wanted in ("transfer=2M", "connections=3", "connect=6", "traffic=3M"):
        assert "the administrator allows" in kernel.run(f"%session limits {wanted}").said


def test_files_are_read_and_combined() -> None:
    one = parse('network = ["*.a.org", "b.org"]', "one")
    other = parse('network = ["x.a.org", "c.org"]', "other")
    assert combined([one, other]).network == parse_all(["x.a.org"])
    assert combined([one, parse("network = false", "none")]).network == frozenset()
    assert combined([one]).given()["network"] == parse_all(["*.a.org", "b.org"])
    for wrong in (
        "network = true",
        'network = "a.org"',
        'network = ["https://a.org"]',
        "network = [3]",
        'network = ["*"]',
    ):
        with pytest.raises(NotAllowed, match="line 1: network"):
            parse(wrong, f"the file {wrong}")


def test_config_shows_it(fresh: Environment) -> None:
    fresh.rule('network = ["*.a.org", "b.org:22"]')
    shown = fresh.run("from wasm_kernel.apps.cli import main; main(['config'])").stdout
    assert "*.a.org" in shown
    assert "HostGrant" not in shown
