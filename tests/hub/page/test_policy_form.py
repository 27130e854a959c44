"""The form in which an administrator tries out a policy: texts as people write them."""

from __future__ import annotations

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.page.policy_form import FIELDS, parse_count, settings_from
from wasm_kernel.hub.policies import rules_from


def test_numbers_are_read_as_people_write_them() -> None:
    assert parse_count("1,000") == 1000
    for odd in ("-1", "1.5", "many", "٣", "1" * 20):
        with pytest.raises(ConfigurationError, match="is not a number"):
            parse_count(odd)


def test_a_form_becomes_a_policy() -> None:
    example = {name: text for name, _, text, _ in FIELDS}
    rules = rules_from(settings_from(example, archive=True))
    assert rules.archive
    assert (rules.retention.max_age_hours, rules.retention.max_sessions) == (30 * 24, 100)
    assert (rules.retention.max_total_bytes, rules.retention.min_free_bytes) == (10 << 30, 5 << 30)
    assert (rules.snapshots.max_age_hours, rules.snapshots.max_per_session) == (14 * 24, 20)
    assert rules.snapshots.max_total_bytes == 5 << 30


def test_forms_that_say_nothing_or_nonsense() -> None:
    with pytest.raises(ConfigurationError, match="at least one bound"):
        settings_from({}, archive=True)
    with pytest.raises(ConfigurationError, match="^Longest time unused: .*soon"):
        settings_from({"max_age": "soon"}, archive=False)
