"""Random numbers of workers: each call gets its own, and the same ones whenever the notebook was seeded alike.

Processes would all go on with the numbers of the one they are forked from. Here a call begins with a seed made of the
state of the notebook's `random` and `numpy.random`, and of how many calls there were since these were seeded. So
results do not depend on which worker runs what, or on how many there are, and the notebook's own numbers are not used
up. A worker that was seeded by its initializer, or in a call, goes on with that. Generators (`default_rng(5)`) are
copied as they are, as with processes: give each call one of its own (`rng.spawn`).
"""

import hashlib
import random

from . import shelf

SIZE = 16
in_worker = False
_originals = {}  # `seed` of each module
_material = b""  # the state that seeds are made of; empty: of what it is when the next one is made
_count = 0  # seeds since then
_own = False  # a worker that was seeded by what it runs


def install(after_import):
    """Notice when the notebook is seeded."""
    _watch(random)
    after_import("numpy.random", _watch)


def _watch(module):
    original = _originals[module.__name__] = module.seed

    def seed(*args, **kwargs):
        global _material, _count, _own
        _material, _count, _own = b"", 0, in_worker
        return original(*args, **kwargs)

    seed.__module__, seed.__qualname__, seed.__doc__ = module.__name__, "seed", original.__doc__
    seed.__wrapped__ = original
    module.seed = seed


def begin_turn():
    """The notebook's numbers may be others by now."""
    global _material
    _material = b""


def next_one():
    """The seed of the next call."""
    global _material, _count
    if not _material:
        state = hashlib.blake2b(repr(random.getstate()).encode())
        numpy = shelf.find("numpy")
        if numpy is not None:
            found = numpy.random.get_state(legacy=False)["state"]
            state.update(found["key"].tobytes() + int(found["pos"]).to_bytes(8, "little"))
        _material = state.digest()
    _count += 1
    return hashlib.blake2b(_material + _count.to_bytes(8, "little"), digest_size=SIZE).digest()


def use(seed):
    """In a worker: begin a call with its seed."""
    if _own:
        return
    _originals["random"](seed)
    if "numpy.random" in _originals and shelf.find("numpy") is not None:
        _originals["numpy.random"](int.from_bytes(seed[:4], "little"))
