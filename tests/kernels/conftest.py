"""A busy machine takes longer for an example: no test of kernels is about time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
