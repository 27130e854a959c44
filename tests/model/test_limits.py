"""Limits by the names people type, in what is refused too."""

from __future__ import annotations

import pytest

from wasm_kernel import ConfigurationError, ExecutionPolicy
from wasm_kernel.model import limits

GiB = 1 << 30


def test_limits_are_changed_by_name() -> None:
    policy = limits.changed(ExecutionPolicy(), {"memory": "1G", "timeout": "10m", "files": "1_000", "output": 5})
    assert policy == ExecutionPolicy(
        memory_bytes=GiB, timeout_seconds=600, max_files=1000, stdout_max_bytes=5, stderr_max_bytes=5
    )
    assert limits.changed(policy, {"timeout": "off"}).timeout_seconds is None


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("memory", "100G", "memory is '100G'; it must be from 320.0 MB to 4.0 GB"),
        ("memory", 1024, "memory is 1.0 KB; it must be from 320.0 MB to 4.0 GB"),
        ("memory", "much", "limit memory: 'much' is not a size; write bytes, or"),
        ("memory", True, "limit memory: 'True' is not a size"),
        ("memory", "1" * 400, "limit memory: '1{59}… is too large"),
        ("timeout", "0.0001", "timeout is '0.0001'; it must be from 1 ms to .* d, or off for no limit"),
        ("timeout", "soon", "limit timeout: 'soon' is not a duration; write seconds, or"),
        ("disk", None, "limit disk: 'None' is not a size"),
        ("files", "-3", "files is '-3'; it must be from 1 to 2,147,483,647"),
        ("files", "few", "limit files: 'few' is not a whole number"),
        ("files", [], r"limit files: \[\] is not a whole number"),
        ("open", 2000, "open is 2,000; it must be from 8 to 1,000"),
        ("output", "2G", "output is '2G'; it must be from 0 B to 1.0 GB"),
        ("memory_bytes", 1 << 30, "there is no limit 'memory_bytes'; the limits are memory, timeout,"),
    ],
)
def test_what_no_limit_can_be_is_refused_in_the_words_that_were_typed(name: str, value: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{complaint}") as caught:
        limits.changed(ExecutionPolicy(), {name: value})
    if name != "memory_bytes":
        assert not {field for limit in limits.LIMITS.values() for field in limit.fields if field in str(caught.value)}


def test_what_is_above_a_maximum_is_refused_in_the_words_that_were_typed() -> None:
    maxima = {"memory": GiB, "timeout": 60.0}
    for wanted, complaint in (
        ({"memory": "100G"}, "memory is '100G'; the administrator allows 1.0 GB at most"),
        ({"memory": 2 * GiB}, "memory is 2.0 GB; the administrator allows 1.0 GB at most"),
        ({"timeout": "off"}, "timeout is 'off'; the administrator allows 60.0 s at most"),
        ({"timeout": None}, "timeout is no limit; the administrator allows 60.0 s at most"),
    ):
        with pytest.raises(ConfigurationError, match=f"^{complaint}$"):
            limits.changed(ExecutionPolicy(), wanted, maxima)
    assert limits.changed(ExecutionPolicy(), {"memory": "1G", "timeout": 60}, maxima).memory_bytes == GiB


def test_of_each_maximum_the_lowest_counts() -> None:
    assert limits.strictest({"memory": "2G", "disk": "1G"}, {"memory": GiB, "timeout": "off"}) == {
        "memory": GiB,
        "disk": GiB,
    }
    assert limits.strictest({"memory": "16G"}) == {"memory": 16 * GiB}, "higher than any limit: it bounds nothing"
    with pytest.raises(ConfigurationError, match="^memory is '1k'; it must be from 320.0 MB"):
        limits.strictest({"memory": "1k"})
