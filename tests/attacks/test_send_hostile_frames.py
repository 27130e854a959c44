"""Frames that are no messages. Whatever reaches the host's callbacks must be of the type and shape it claims to be."""

from __future__ import annotations

import dataclasses
import json
import struct
import sys
from typing import Any, ClassVar, get_type_hints

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import SandboxResult, Stream
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.output_buffer import Notice

_CAP = 8 << 20
_DEEPEST = 250
_AMPLIFICATION = 10


class _FrameScene(Scene):
    """Every event is looked at by a judge that knows the messages only from their declarations."""

    limits: ClassVar[dict[str, Any]] = {"display_max_bytes": _CAP}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = [problem for event in self.events for problem in _problems(event)]
        if not isinstance(result.reply, dict) or "forged" in result.reply:
            found.append(f"the reply is {result.reply!r:.100}")
        return found


def _problems(event: Any) -> list[str]:
    declared = get_type_hints(type(event))
    present = vars(event)
    found = []
    if type(event) not in (*wire._FIELDS, Stream, Notice):  # a notice is the host's own
        found.append(f"{type(event).__name__} is no event")
    if isinstance(event, Stream) and event.text == "forged":
        found.append("a stream was forged")
    if {field.name for field in dataclasses.fields(event)} != set(present):
        found.append(f"{type(event).__name__} has {sorted(present)}")
    for name, value in present.items():
        wanted = getattr(declared.get(name, object), "__origin__", declared.get(name, object))
        if type(value) is not wanted:
            found.append(f"{name} is {type(value).__name__}")
    if isinstance(present.get("traceback"), list) and any(type(line) is not str for line in present["traceback"]):
        found.append("a traceback has lines that are no text")
    if isinstance(present.get("buffers"), tuple) and any(type(b) is not bytes for b in present["buffers"]):
        found.append("a buffer is no bytes")
    if isinstance(event, wire.Comm) and event.action not in ("comm_open", "comm_msg", "comm_close"):
        found.append(f"a comm does {event.action!r:.40}")
    size, deepest = _measure(present)
    if deepest > _DEEPEST:
        found.append(f"it is nested {deepest} deep")
    if size > _AMPLIFICATION * _CAP:
        found.append(f"it takes {size} bytes on the host, {_CAP} may be sent")
    if not _encodable(present):
        found.append("it cannot be encoded")
    return found


def _measure(value: Any) -> tuple[int, int]:
    """Bytes an event takes on the host, and how deep it is nested."""
    size = depth = 0
    level = [value]
    while level:
        depth += 1
        size += sum(map(sys.getsizeof, level))
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return size, depth


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _believed(frame: bytes) -> Any:
    """`wire.decode_event` without its checks."""
    (length,) = struct.unpack_from("<I", frame)
    header = json.loads(*struct.unpack_from(f"<{length}s", frame, 4))
    event = object.__new__(getattr(wire, header.pop("type"), wire.DisplayData))
    for name, value in header.items():
        object.__setattr__(event, name, value)
    return event


_WORDS = """
import json, _host, wasm_guest.wire as wire
def send(header, behind=b'', length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw((len(text) if length is None else length).to_bytes(4, 'little') + text + behind)
def raw(frame):
    try: _host.call(frame)
    except OSError: pass
def display(**more): return {'type': 'DisplayData', 'data': {}, 'metadata': {}, 'transient': {}, **more}
def comm(**more): return {'type': 'Comm', 'action': 'comm_msg', 'content': {}, 'metadata': {}, **more}
def error(**more): return {'type': 'ErrorRaised', 'ename': 'E', 'evalue': 'v', 'traceback': [], **more}
def result(**more): return {'type': 'ExecuteResult', 'data': {}, 'metadata': {}, 'execution_count': 1, **more}
nan = float('nan')
"""

_ATTACKS = {
    # not even a frame
    "nothing": "raw(b'')",
    "three bytes": "raw(b'abc')",
    "a length alone": "raw(b'\\xff\\xff\\xff\\xff')",
    "a length past the end": "send(display(), length=10**6)",
    "a length too short": "send(display(), length=10)",
    "the largest length": "send(display(), length=2**32 - 1)",
    "cut at every byte": "f = wire.encode(display())\nfor i in range(len(f)): raw(f[:i])",
    "bytes left over": "send(comm(buffers=[3]), b'abcdef')",
    # not a header
    "no JSON": "send(b'hello')",
    "an array": "send(b'[]')",
    "a number": "send(b'1')",
    "null": "send(b'null')",
    "bytes that are no UTF-8": 'send(b\'{"type": "\\xff\\xfe"}\')',
    "a number of 5,000 digits": "send(b'{\"type\": \"ClearOutput\", \"wait\": ' + b'1' * 5000 + b'}')",
    "nested too deep to parse": "send(b'[' * 100_000)",
    "objects nested too deep to parse": "send(b'{\"a\":' * 100_000)",
    "nested 300 deep": "send(display(metadata=json.loads('{\"a\":' * 300 + '1' + '}' * 300)))",
    # not a message
    "no type": "send({'data': {}})",
    "a type that is no text": "send({'type': ['DisplayData']})",
    "an unknown type": "send({'type': 'Nonsense'})",
    "a type with a path": "send({'type': '__class__'})",
    "an exception as type": "send({'type': 'BadFrame'})",
    "a function as type": "send({'type': 'decode'})",
    "a module as type": "send({'type': 'json'})",
    "a forged stream": "send({'type': 'Stream', 'name': 'stdout', 'text': 'forged'})",
    # not its fields
    "no fields": "send({'type': 'DisplayData'})",
    "a field too many": "send(display(evil=1))",
    "a field too few": "h = display(); del h['metadata']; send(h)",
    "a private field": "send(display(__class__='x'))",
    "data that is a list": "send(display(data=[1]))",
    "data that is text": "send(display(data='x'))",
    "data that is null": "send(display(data=None))",
    "metadata that is a number": "send(display(metadata=1))",
    "transient that is text": "send(display(transient='display_id'))",
    "a count that is text": "send(result(execution_count='1'))",
    "a count that is a fraction": "send(result(execution_count=1.5))",
    "a count that is true": "send(result(execution_count=True))",
    "a count that is not a number": "send(result(execution_count=nan))",
    "a name that is a number": "send(error(ename=1))",
    "a value that is an object": "send(error(evalue={}))",
    "a traceback that is text": "send(error(traceback='x'))",
    "a traceback of numbers": "send(error(traceback=[1, None]))",
    "a wait that is a number": "send({'type': 'ClearOutput', 'wait': 1})",
    "a prompt that is a number": "send({'type': 'InputRequest', 'prompt': 1, 'password': False})",
    "a password that is text": "send({'type': 'InputRequest', 'prompt': '', 'password': 'yes'})",
    "a comm that does something else": "send(comm(action='shutdown_request'))",
    "a comm action that is a list": "send(comm(action=['comm_msg']))",
    "a comm content that is a list": "send(comm(content=[]))",
    # not its buffers
    "buffers that are missing": "send(comm(buffers=[1000]))",
    "buffers of negative length": "send(comm(buffers=[-1, 1]))",
    "buffers of true length": "send(comm(buffers=[True]), b'x')",
    "buffers that are a number": "send(comm(buffers=3), b'abc')",
    "buffers that are text": "send(comm(buffers='3'), b'abc')",
    "buffers without number": "send(comm(buffers=[0] * 5000))",
    "buffers of a display": "send(display(buffers=[3]), b'abc')",
    "buffers past all sizes": "send(comm(buffers=[2**63, 2**63]))",
    # not a reply
    "a reply that is a list": "send({'type': 'Reply', 'content': [1]}); sys.modules['wasm_guest.driver']._host = None",
    "a reply without content": "send({'type': 'Reply'}); sys.modules['wasm_guest.driver']._host = None",
    # a message that nobody could send on, or hold
    "surrogates in a display": "send(display(data={'text/plain': '\\ud800'}))",
    "surrogates in a mime type": "send(display(data={'\\udfff': ''}))",
    "surrogates in an error": "send(error(evalue='\\ud800', traceback=['\\ud800']))",
    "nothing but empty lists": """
send(json.dumps(display(data={'a': []})).encode().replace(b'[', b'[' + b'[],' * 2_200_000 + b'0'))
""",
    "noise": """
import random
random.seed(1)
for i in range(300):
    f = bytearray(wire.encode(random.choice([display, comm, error, result])()))
    for k in range(random.randrange(1, 4)): f[random.randrange(len(f))] = random.choice(b'\\0 []{}",:1ntx')
    raw(bytes(f))
""",
}
_HARMLESS = {
    "no bytes at all": "_host.call('text')",
    "a large integer": "send(display(data={'a': 10**400}))",
    "not a number": "send(display(data={'a': nan, 'b': float('inf')}))",
    "a key of a megabyte": "send(display(data={'k' * (1 << 20): 1}))",
    "one key twice": 'send(b\'{"type":"ClearOutput","wait":1,"wait":true}\')',
    "another encoding": "send(json.dumps(display()).encode('utf-16'))",
    "ten thousand questions for a request": "for i in range(10_000): raw(wire.encode({'type': 'NextRequest'}))",
}


class TestSendHostileFrames(AttackTests):
    family = Family(
        _FrameScene,
        [Attack(name, quietly(code, _WORDS)) for name, code in _ATTACKS.items()],
        lambda: guards.patched((wire, "decode_event", _believed)),
        in_depth=[Attack(name, quietly(code, _WORDS)) for name, code in _HARMLESS.items()],
    )
