"""Metadata to JSON and back, whatever it holds and whatever the clock does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.model.records import (
    BadRecord,
    SessionRecord,
    check_session_id,
    format_time,
    is_uuid,
    new_record,
    parse_record,
    parse_time,
)

REQUIRED = ("session_id", "created_at", "updated_at", "version")
NOW = datetime(2026, 11, 22, 10, 15, 30, 123456, UTC)

moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
unknown = st.dictionaries(st.text(max_size=12).filter(lambda name: name not in REQUIRED), json_values, max_size=5)
records = st.builds(
    lambda name, times, version, extra: SessionRecord(name, min(times), max(times), version, extra),
    st.uuids(version=4).map(str),
    st.tuples(moments, moments),
    st.integers(1, 99),
    unknown,
)


@given(records)
def test_a_record_comes_back_as_it_was(record: SessionRecord) -> None:
    again = parse_record(record.to_json())
    assert again == record
    assert again.to_json() == record.to_json()


@given(records)
def test_the_file_is_the_schema_of_the_specification(record: SessionRecord) -> None:
    found = json.loads(record.to_json())
    assert list(found)[:4] == list(REQUIRED)
    assert {name: value for name, value in found.items() if name not in REQUIRED} == record.extra
    for name in ("created_at", "updated_at"):
        assert found[name].endswith("Z")
        assert len(found[name]) == len("2026-11-22T10:15:30.123456Z")


@given(records, st.lists(moments, min_size=1, max_size=8))
def test_updated_at_increases_even_when_the_clock_steps_back(record: SessionRecord, clock: list[datetime]) -> None:
    first = record
    for now in clock:
        newer = record.touched(now)
        assert newer.updated_at > record.updated_at
        assert newer.updated_at >= now
        assert newer.updated_at in (now, record.updated_at + timedelta(microseconds=1))
        assert format_time(newer.updated_at) > format_time(record.updated_at), "in the file, too"
        record = newer
    assert (record.created_at, record.session_id, record.version, record.extra) == (
        first.created_at,
        first.session_id,
        first.version,
        first.extra,
    )


@given(records, moments, unknown.map(lambda d: {k: v for k, v in d.items() if k not in ("now", "self")}))
def test_unknown_fields_are_preserved(record: SessionRecord, now: datetime, more: dict[str, Any]) -> None:
    before = dict(record.extra)
    newer = parse_record(record.touched(now, **more).to_json())
    assert newer.extra == {**before, **more}
    assert record.extra == before, "the older record is as it was"


@pytest.mark.parametrize("name", ["now", "self", "extra", "record"])
def test_a_field_may_have_any_name(name: str) -> None:
    """An archive's session.json may hold fields of any name, and import_session passes them on."""
    assert new_record("a", NOW).touched(NOW, **{name: 1}).extra == {name: 1}


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=offsets))
def test_times_of_any_zone_become_utc(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment
    assert parse_time(moment.isoformat()) == moment
    assert parse_time(moment.isoformat()).utcoffset() == timedelta(0)
    assert parse_time(moment.replace(tzinfo=None).isoformat()) == moment.replace(tzinfo=UTC), "without a zone: UTC"


def test_a_new_record_was_updated_when_it_was_created() -> None:
    record = new_record("a", NOW, notebook="n.ipynb")
    assert json.loads(record.to_json()) == {
        "session_id": "a",
        "created_at": "2026-11-22T10:15:30.123456Z",
        "updated_at": "2026-11-22T10:15:30.123456Z",
        "version": 1,
        "notebook": "n.ipynb",
    }
    assert format_time(NOW.replace(microsecond=0)) == "2026-11-22T10:15:30.000000Z"


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_a_refusal(data: bytes) -> None:
    try:
        parse_record(data)
    except BadRecord as e:
        assert str(e)


near_times = st.one_of(
    json_values,
    st.text(max_size=30),
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=offsets | st.none()).map(datetime.isoformat),
)


@given(st.fixed_dictionaries({}, optional={**dict.fromkeys(("session_id", "version"), json_values | st.just(1)), **dict.fromkeys(("created_at", "updated_at"), near_times)}))  # fmt: skip
def test_any_object_gives_a_record_or_a_refusal(found: dict[str, Any]) -> None:
    try:
        record = parse_record(json.dumps(found).encode())
    except BadRecord:
        return
    assert parse_record(record.to_json()) == record


def valid(**changes: Any) -> bytes:
    """A record's JSON with fields changed; None drops one."""
    found = {**json.loads(new_record("a", NOW).to_json()), **changes}
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff\xff",
        b"[" * 100_000,
        valid()[:-5],
        *(valid(**{name: None}) for name in REQUIRED),
        valid(session_id=5),
        valid(version=0),
        valid(version="1"),
        valid(version=True),
        valid(version=1.0),
        valid(created_at=5),
        valid(updated_at="yesterday"),
        valid(updated_at=""),
        valid(updated_at="2026-13-01T00:00:00Z"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(BadRecord):
        parse_record(data)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_outside_the_calendar_is_refused(time: str) -> None:
    with pytest.raises(BadRecord):
        parse_record(valid(updated_at=time))


def test_a_record_at_the_end_of_the_calendar_can_be_touched() -> None:
    """A damaged file that says 9999-12-31T23:59:59.999999Z must not fail an execution."""
    last = parse_record(valid(updated_at="9999-12-31T23:59:59.999999Z"))
    assert last.touched(NOW).updated_at >= NOW


@pytest.mark.parametrize("name", ["abc-123", "a", "A1", "550e8400-e29b-41d4-a716-446655440000", "a" * 128])
def test_safe_ids(name: str) -> None:
    assert check_session_id(name) == name


@given(st.text(max_size=20))
def test_an_id_that_passes_is_one_plain_path_component(name: str) -> None:
    try:
        check_session_id(name)
    except ValueError:
        return
    assert name.isascii()
    assert name.replace("-", "").isalnum()
    assert name[0] != "-"
    assert not name.startswith(".")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\n", "abc\n", "a\0", "a_b", "-a", "a-", "é", "a" * 129, None, 5]
)
def test_unsafe_ids(name: Any) -> None:
    with pytest.raises(ValueError, match="session_id"):
        check_session_id(name)


@given(st.uuids())
def test_only_canonical_uuids_are_prunable(value: Any) -> None:
    text = str(value)
    assert is_uuid(text)
    for other in (text + "\n", text[:-1], text + "0", text.replace("-", ""), "{" + text + "}", "x" + text[1:]):
        assert not is_uuid(other)
