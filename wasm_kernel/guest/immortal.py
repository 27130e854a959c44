"""Find every object of the base memory, so that the image build can make them immortal.

CPython writes to an object when it merely looks at it: the reference count. Over a shared base memory each such
write copies a page. An immortal object's count is never written. The guest cannot set that itself; here it only
lists where its objects are, and the build writes the counts into the saved memory (`host/immortal.py`).
"""

import array
import gc
import types

_CODE_PARTS = ("co_consts", "co_names", "co_filename", "co_name", "co_qualname", "co_linetable", "co_exceptiontable")


def addresses():
    """Pairs of addresses: every object reachable from the collector's, and its type. 32-bit numbers."""
    gc.unfreeze()
    gc.disable()
    level = gc.get_objects()
    seen = set(map(id, level))
    found = array.array("I")
    while level:
        deeper = []
        for item in level:
            kind = type(item)
            found.append(id(item))
            found.append(id(kind))
            parts = [getattr(item, name) for name in _CODE_PARTS] if kind is types.CodeType else gc.get_referents(item)
            for other in parts:
                if id(other) not in seen:
                    seen.add(id(other))
                    deeper.append(other)
        level = deeper
    return found.tobytes()
