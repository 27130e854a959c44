"""Who keeps what: the default, groups, single users, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.policies import Policies, rules_from
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.snapshot_retention import SnapshotRetention


def test_a_policy_as_people_write_it() -> None:
    rules = rules_from(
        {
            "max_age": "30d",
            "max_sessions": 50,
            "max_total": "10G",
            "min_free": "512M",
            "keep": ["0c11d2e3"],
            "snapshot_max_age": "2w",
            "snapshot_max_per_session": 20,
            "snapshot_max_total": "1G",
            "archive": True,
            "warn_before": "3d",
        }
    )
    assert rules.retention == RetentionPolicy(720.0, 50, 10 << 30, 512 << 20, frozenset({"0c11d2e3"}))
    assert rules.snapshots == SnapshotRetention(336.0, 20, 1 << 30)
    assert (rules.archive, rules.warn_before) == (True, 259200.0)
    assert rules.retention.is_bounded
    assert rules.bounds_snapshots


def test_a_policy_as_a_command_line_has_it() -> None:
    rules = rules_from({"max_sessions": "50", "archive": "true", "max_total": "1024"})
    assert rules.retention == RetentionPolicy(max_sessions=50, max_total_bytes=1024)
    assert rules.archive


def test_nothing_is_pruned_unless_somebody_says_so() -> None:
    rules = Policies().rules(HubUser("ann"))
    assert not rules.retention.is_bounded
    assert not rules.bounds_snapshots


def test_the_most_specific_setting_wins_each_by_itself() -> None:
    policies = Policies(
        {"max_age": "30d", "max_sessions": 10, "archive": True},
        {"staff": {"max_age": "90d", "max_total": "1G"}},
        {"ann": {"max_age": None}},
    )
    ann = policies.rules(HubUser("ann", ("staff",)))
    assert ann.retention == RetentionPolicy(max_age_hours=None, max_sessions=10, max_total_bytes=1 << 30)
    assert ann.archive
    assert ann.source == "default + group staff + user ann"
    bob = policies.rules(HubUser("bob", ("staff", "unknown")))
    assert bob.retention.max_age_hours == 90 * 24
    assert policies.rules(HubUser("eve")).retention.max_age_hours == 30 * 24


@pytest.mark.parametrize(
    ("name", "one", "other", "wins"),
    [
        ("max_age", "1d", "2d", 48.0),
        ("max_age", "1d", None, None),
        ("max_sessions", 5, 3, 5),
        ("max_total", "1k", "2k", 2048),
        ("min_free", "1k", "2k", 1024),
        ("min_free", "1k", None, None),
        ("keep", ["a1"], ["b2"], frozenset({"a1", "b2"})),
        ("warn_before", "1h", "2h", 7200.0),
        ("warn_before", None, "2h", 7200.0),
        ("archive", False, True, True),
        ("archive", None, True, True),
        ("archive", False, False, False),
        ("archive", None, False, False),
        ("archive", None, None, False),
        ("warn_before", None, None, 0.0),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_of_several_groups_what_keeps_more_wins(name: str, one: Any, other: Any, wins: Any, swapped: bool) -> None:
    groups = {"a": {name: other if swapped else one}, "b": {name: one if swapped else other}}
    rules = Policies({}, groups).rules(HubUser("ann", ("b", "a")))
    values = {
        "max_age": rules.retention.max_age_hours,
        "max_sessions": rules.retention.max_sessions,
        "max_total": rules.retention.max_total_bytes,
        "min_free": rules.retention.min_free_bytes,
        "keep": rules.retention.keep,
        "warn_before": rules.warn_before,
        "archive": rules.archive,
    }
    assert values[name] == wins


def test_archives_are_made_only_where_somebody_asked_for_them() -> None:
    groups = {"a": {"max_age": "1d"}, "b": {"max_age": "2d", "keep": ["x"]}, "c": {"archive": True}}
    policies = Policies({"max_sessions": 5}, groups, {"eve": {"archive": False}})
    assert not policies.rules(HubUser("ann", ("a", "b"))).archive
    assert policies.rules(HubUser("ann", ("a", "c"))).archive
    assert not policies.rules(HubUser("eve", ("a", "c"))).archive, "the user's own policy comes last"
    assert policies.archives
    assert not Policies({}, {"a": {"archive": False}, "b": {"max_age": "1d"}}).archives


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_age": "soon"}, "policy['max_age'] is 'soon'"),
        ({"max_age": True}, "policy['max_age'] is True"),
        ({"max_age": -1}, "finite and not negative"),
        ({"max_age": float("nan")}, "finite and not negative"),
        ({"max_sessions": 1.5}, "policy['max_sessions'] is 1.5"),
        ({"max_sessions": "-1"}, "policy['max_sessions'] is '-1'"),
        ({"max_total": "1X"}, 'a size, such as "10G"'),
        ({"keep": "../x"}, "a list of session ids"),
        ({"keep": ["../x"]}, "a list of session ids"),
        ({"archive": "yes"}, "True or False"),
        ({"max_agee": "3d"}, "the settings of a policy are max_age, max_sessions"),
        ([], "it must be a dictionary"),
    ],
)
def test_a_policy_that_cannot_be_says_what_is_wrong(settings: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rules_from(settings)
    assert told in str(caught.value)


def test_where_a_wrong_policy_is() -> None:
    with pytest.raises(ConfigurationError, match=r"group_policies\['staff'\]\['max_age'\]"):
        Policies({}, {"staff": {"max_age": "x"}})
    with pytest.raises(ConfigurationError, match=r"user_policies\['ann'\] has 'x'"):
        Policies({}, {}, {"ann": {"x": 1}})
