"""How values look on the operators' page: templates, and untrusted text made harmless."""

from __future__ import annotations

import functools
import hashlib
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from wasm_kernel.hub.page import tables
from wasm_kernel.model.records import BadRecord, parse_time
from wasm_kernel.model.units import format_duration, format_size

STATIC = Path(__file__).parent / "static"
_REASONS = {
    "max_age_hours": "unused for too long",
    "max_sessions": "too many",
    "max_total_bytes": "too much space",
    "min_free_bytes": "disk is full",
    "no_metadata": "no metadata",
    "corrupted_metadata": "damaged metadata",
    "foreign_metadata": "metadata of another session or version",
    "symlink": "a link",
    "mount_inside": "a mount inside",
}

_DEEDS = {
    "stop": "stop and snapshot",
    "create": "create from snapshot",
    "live": "in use, left alone",
    "changed": "used since, left alone",
}
"""What was done, or came of it, in the audit log's words and in people's."""
_LENGTHS = (
    ("s", 1, 90),
    ("min", 60, 90 * 60),
    ("h", 3600, 36 * 3600),
    ("days", 86400, 90 * 86400),
    ("months", 30.44 * 86400, 730 * 86400),
)


def render(template: str, **values: Any) -> str:
    """Render a page. All its values are escaped."""
    return _templates().get_template(template).render(version=version(), **values)


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown,
        "path": _path,
        "size": format_size,
        "duration": format_duration,
        "lasting": lasting,
        "count": lambda number: f"{number:,}",
        "moment": lambda moment: f"{moment.day} {moment:%b %Y, %H:%M} UTC",
        "deed": lambda action: shown(_DEEDS.get(action, action)),
        "trigger": lambda trigger: shown(tables.TRIGGERS.get(trigger, trigger)),
        "reason": lambda reason: _REASONS.get(reason, reason),
    }
    environment.globals |= {"age": age, "until": until, "name_of": tables.name_of, "place_of": tables.place_of}
    environment.globals |= {"triggers": tables.TRIGGERS, "moment_of": moment_of}
    return environment


def shown(text: object) -> str:
    """Untrusted text on one line, without characters that reverse, hide or end it."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def _path(text: str) -> Markup:
    """A path that breaks after its slashes."""
    return Markup("/<wbr>").join(shown(text).split("/"))


def age(moment: datetime, now: datetime) -> str:
    """How long ago."""
    seconds = max(0.0, (now - moment).total_seconds())
    return "just now" if seconds < 5 else f"{lasting(seconds)} ago"


def until(moment: datetime, now: datetime) -> str:
    """How long to wait."""
    left = (moment - now).total_seconds()
    return f"in {lasting(left)}" if left > 0 else "now"


def moment_of(text: str) -> datetime | None:
    """A time that was written down; None if it is none."""
    try:
        return parse_time(text)
    except BadRecord:
        return None


def lasting(seconds: float) -> str:
    """A length of time as people say it: ``40 s``, ``5 min``, ``3 h``, ``34 days``, ``5 months``, ``2 years``."""
    for unit, length, most in _LENGTHS:
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / (365.25 * 86400):.0f} years"


@functools.cache
def version() -> str:
    """Changes with style and script, so that no browser keeps an old one."""
    return hashlib.sha256(b"".join(p.read_bytes() for p in sorted(STATIC.iterdir()))).hexdigest()[:12]
