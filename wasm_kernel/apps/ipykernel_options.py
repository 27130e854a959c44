"""Options that tools and kernelspecs give to ipykernel: accepted, and without effect, as the sandbox has no profile.

An option that is not known would stop the kernel from starting.
"""

from __future__ import annotations

from typing import Any

_SECTION = "IPyKernelOptions"
_WITH_A_VALUE = (
    "profile-dir profile ipython-dir ip hb shell iopub stdin control transport autocall colors theme logfile logappend "
    "c m ext gui pylab matplotlib cache-size ident user keyfile"
)
_WITHOUT = (
    "quiet init no-stdout no-stderr pylab trio-loop autoindent no-autoindent automagic no-automagic pdb no-pdb pprint "
    "no-pprint color-info no-color-info ignore-cwd no-ignore-cwd nosep matplotlib secure no-secure"
)
_HELP = "accepted as by ipykernel; has no effect"

ALIASES = {name: f"{_SECTION}.{name.replace('-', '_')}" for name in _WITH_A_VALUE.split()}
FLAGS = {name: ({_SECTION: {name.replace("-", "_"): True}}, _HELP) for name in _WITHOUT.split()}


def without_effect(config: dict[str, Any]) -> list[str]:
    """The options given that have no effect, as they are written."""
    return [f"--{name.replace('_', '-')}" for name in config.pop(_SECTION, {})]
