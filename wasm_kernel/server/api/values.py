"""JSON in and out: requests checked by the OpenAPI document, answers that are valid whatever a guest put into them."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from wasm_kernel.guest.wire import nested_deeper_than, without_surrogates
from wasm_kernel.host.disk.locks import told
from wasm_kernel.model.records import format_time
from wasm_kernel.server.problems import Problem

_T = TypeVar("_T")
MAX_BODY = 4 << 20
_MAX_DEPTH = 100
_SHORT = 60
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?\Z")
_OF_THE_SERVER = ("token", "no_track_activity", "_xsrf")  # query arguments that Jupyter Server understands


# ---- out


def as_json(value: Any) -> bytes:
    """Any value as JSON: numbers that JSON lacks become null, lone surrogates question marks."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except ValueError:  # also UnicodeEncodeError
        return json.dumps(_clean(value), allow_nan=False, separators=(",", ":")).encode()


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {_clean(str(key)): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def shallow(value: Any) -> dict[str, Any]:
    """An object from a file that anybody may have written; empty if it is not an object, or nested too deep."""
    return value if isinstance(value, dict) and not nested_deeper_than(value, _MAX_DEPTH) else {}


def page(found: Sequence[_T], query: Mapping[str, Any], shown: Callable[[_T], Any]) -> dict[str, Any]:
    """A page of a list."""
    offset, limit = query["offset"], query["limit"]
    end = offset + limit
    return {
        "items": [shown(item) for item in found[offset:end]],
        "total": len(found),
        "offset": offset,
        "limit": limit,
        "next_offset": end if end < len(found) else None,
    }


def holder(root: Path, session_id: str) -> dict[str, Any]:
    """Who has a session open."""
    found = told(root, session_id)
    pid, since = found.get("pid"), None
    with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):
        since = format_time(datetime.fromtimestamp(found.get("since"), UTC))  # type: ignore[arg-type]
    return {"pid": pid if type(pid) is int and pid > 0 else None, "since": since}


# ---- in


class Operation:
    """The query and body of one operation of the document."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._query = {p["name"]: p["schema"] for p in described.get("parameters", []) if p["in"] == "query"}
        body = described.get("requestBody")
        self._body = body["content"]["application/json"]["schema"] if body else None
        self._required = bool(body and body["required"])

    def query(self, given: Mapping[str, list[str]]) -> dict[str, Any]:
        """Query arguments as values, defaults filled in. Unknown arguments are refused."""
        found: dict[str, Any] = {}
        for name, values in given.items():
            if name in _OF_THE_SERVER:
                continue
            schema = self._query.get(name)
            if schema is None:
                known = ", ".join(self._query) or "none"
                raise Problem(400, f"unknown argument {name[:_SHORT]!r}; known arguments: {known}")
            if schema.get("type") == "array":
                found[name] = values
            elif len(values) > 1:
                raise Problem(400, f"{name} is given {len(values)} times; give it once")
            else:
                found[name] = _from_text(values[0], schema)
            _check(found[name], schema, name)
        return {**_defaults(self._query), **found}

    def body(self, content_type: str, data: bytes) -> dict[str, Any]:
        """The body's fields, defaults filled in."""
        assert self._body is not None
        if len(data) > MAX_BODY:
            raise Problem(413, f"the body has {len(data):,} bytes; at most {MAX_BODY:,} are allowed")
        if not data and not self._required:
            return _defaults(self._body["properties"])
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, f"Content-Type is {content_type[:_SHORT]!r}; it must be application/json")
        value = _parsed(data)
        _check(value, self._body, "")
        return {**_defaults(self._body["properties"]), **value}


def operations(document: Mapping[str, Any]) -> dict[str, Operation]:
    """Every operation of a document, by its id."""
    return {
        described["operationId"]: Operation(described)
        for path in document["paths"].values()
        for method, described in path.items()
        if method != "parameters"
    }


def _defaults(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema["default"] for name, schema in schemas.items() if "default" in schema}


def _parsed(data: bytes) -> Any:
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as e:
        raise Problem(400, f"the body is not JSON: {str(e)[:200] or 'it is nested too deep'}") from None
    if nested_deeper_than(value, _MAX_DEPTH):
        raise Problem(400, f"the body is nested deeper than {_MAX_DEPTH} levels")
    return without_surrogates(value)


def _refuse(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float | int:
    """A number with a point or an exponent; 1.0 is an integer, as in JSON Schema."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text[:_SHORT]}, which is too large")
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _from_text(text: str, schema: Mapping[str, Any]) -> Any:
    """A query argument converted to its type; what does not convert stays text, and is refused."""
    kind = schema["type"]
    if kind == "integer" and _INTEGER.match(text):
        return int(text)
    if kind == "number" and _NUMBER.match(text):
        return float(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


def _check(value: Any, schema: Mapping[str, Any], name: str) -> None:
    errors = list(Draft202012Validator(schema).iter_errors(value))
    if errors:
        raise Problem(400, _complaint(min(errors, key=lambda e: len(e.absolute_path)), name))


def _complaint(error: Any, name: str) -> str:
    """What is wrong, the value, and what it must be."""
    where = ".".join([*([name] if name else []), *map(str, error.absolute_path)])
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        unknown = next(key for key in error.instance if key not in known)
        return f"{where + ': ' if where else ''}unknown field {unknown[:_SHORT]!r}; known fields: {', '.join(known)}"
    if error.validator == "required":
        return f"{error.message} of {where or 'the body'}"
    value = json.dumps(error.instance)
    shown = value if len(value) <= _SHORT else value[:_SHORT] + "…"
    return f"{where or 'the body'} is {shown}; it must be {_wanted(error.schema)}"


def _wanted(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if "anyOf" in schema:
        return " or ".join(_wanted(option) for option in schema["anyOf"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(_kind(kind, schema) for kind in kinds)


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    if kind in ("integer", "number"):
        span = f"from {schema['minimum']:,} to {schema['maximum']:,}"
        return f"a {'whole ' if kind == 'integer' else ''}number {span}"
    if kind == "string" and "pattern" in schema:
        return f"text such as {schema['examples'][0]!r}"
    if kind == "string":
        return f"text of at most {schema['maxLength']:,} characters"
    if kind == "array":
        return f"a list of at most {schema['maxItems']:,}, each {_wanted(schema['items'])}"
    if kind == "object" and "maxProperties" in schema:
        return f"an object of at most {schema['maxProperties']:,} fields"
    return {"boolean": "true or false", "null": "null", "object": "an object"}[kind]
