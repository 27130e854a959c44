"""What the side panel asks for when the guest is at rest: the first values of each variable, a page of a table.

No code of the user's runs for it (`short_forms`, `tables`).
"""

import time

from . import short_forms, tables
from .variables import users

_SECONDS = 0.05  # for all of them: a cell may wait
_LONGEST = 160  # characters of the first values
_MOST_ROWS, _MOST_COLUMNS = 500, 100


def first_values(shell):
    """Name to [shape, bytes, first values, whether it opens as a table]; what there is no time for is left out."""
    found = {}
    end = time.monotonic() + _SECONDS
    for name, value in users(shell):
        if time.monotonic() > end:
            break
        found[name] = _first(value)
    return found


def _first(value):
    try:
        table = tables.table(value)
        if table is not None:
            return [list(table.shape()), table.bytes or short_forms.size(value), table.first(_LONGEST), True]
        length, text = short_forms.length(value), short_forms.short(value, _LONGEST)
        shown = "" if text == f"<{short_forms.type_name(type(value))}>" else text
        return [[] if length is None else [length], short_forms.size(value), shown, False]
    except Exception:  # an object that is not what it seems
        return [[], 0, "", False]


def page(shell, request):
    """Some rows and columns of a variable, as texts; `problem` says why there are none."""
    name = request["name"]
    value = shell.user_ns.get(name, page)
    if value is page:
        return {"problem": "gone"}
    table = tables.table(value, request["at"])
    if table is None:
        return {"problem": "no table", "kind": short_forms.type_name(type(value))}
    row, column = min(request["row"], table.rows), min(request["column"], table.columns)
    stop = min(table.rows, row + min(request["rows"], _MOST_ROWS))
    last = min(table.columns, column + min(request["columns"], _MOST_COLUMNS))
    columns = [table.column(number, row, stop) for number in range(column, last)]
    return {
        "kind": short_forms.type_name(type(value)),
        "shape": list(table.shape()),
        "at": list(table.at),
        "rows": table.rows,
        "columns": table.columns,
        "row": row,
        "column": column,
        "levels": list(table.levels),
        "labels": table.labels(row, stop),
        "names": [name for name, _, _ in columns],
        "types": [kind for _, kind, _ in columns],
        "cells": [cells for _, _, cells in columns],
    }
