"""Settings become limits here, and nowhere else: for kernels, for files over HTTP and for the API.

Three parties have a say, and each can only tighten what the one before allows: the administrator's rules, the maxima
of the configuration, and the limits of the configuration, which are what a session starts with. A limit above its
maximum is lowered to it, with a note. While a setting cannot be understood, nothing runs: ignoring it could give a
session more than was intended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy

_FILE = "jupyter_wasm_kernel_config.py"


@dataclass(frozen=True)
class SessionLimits:
    """What the settings give a session.

    Attributes:
        policy: The limits that a session starts with.
        maxima: What each limit may be raised to, by the names of `limits.LIMITS`; a limit not listed here has no
            maximum.
        problem: Why nothing may run, for a person to read; empty if there is no problem. With one, the other values
            come from the administrator's rules alone.
        notes: What a person should know about limits that differ from their configured values.
    """

    policy: ExecutionPolicy
    maxima: Mapping[str, float]
    problem: str = ""
    notes: tuple[str, ...] = ()

    def lowered(self, ceilings: Mapping[str, float]) -> SessionLimits:
        """The same limits under additional maxima."""
        maxima = limits.strictest(self.maxima, ceilings)
        return replace(self, policy=limits.bounded(self.policy, maxima), maxima=maxima)


def session_limits(ruled: Mapping[str, float], configured: Mapping[str, object]) -> SessionLimits:
    """What a session may use, by the administrator's maxima and the section ``WasmKernel`` of the configuration.

    Never raises `ConfigurationError`: the result's `problem` says what is wrong with the configuration.
    """
    nothing = SessionLimits(limits.bounded(ExecutionPolicy(), ruled), dict(ruled))
    try:
        maxima = limits.strictest(ruled, _values(configured.get("maxima")))
    except ConfigurationError as e:
        return replace(nothing, problem=_problem("maxima", e))
    try:
        wanted = _values(configured.get("limits"))
        asked = limits.changed(ExecutionPolicy(), wanted)
    except ConfigurationError as e:
        return replace(nothing, problem=_problem("limits", e))
    try:
        asked = replace(asked, network=_hosts(configured.get("network")))
    except ConfigurationError as e:
        return replace(nothing, problem=_problem("network", e))
    policy = limits.bounded(asked, maxima)
    notes = (_lowered(name, wanted[name], policy) for name in wanted if _differ(name, asked, policy))
    return SessionLimits(policy, maxima, notes=tuple(notes))


def _values(setting: object) -> Mapping[str, object]:
    if setting is None:
        return {}
    if not isinstance(setting, Mapping):
        raise ConfigurationError(f"it is {setting!r}; write a dictionary, such as {{'memory': '2G', 'timeout': '10m'}}")
    return setting


def _hosts(setting: object) -> list[str]:
    if setting is None:
        return []
    if not isinstance(setting, list | tuple):
        raise ConfigurationError(f"it is {setting!r}; write a list of hosts, such as ['api.github.com']")
    return [str(host) for host in setting]


def _problem(setting: str, error: ConfigurationError) -> str:
    return f"WasmKernel.{setting} cannot be used: {error}. Nothing runs here until it is fixed in {_FILE}"


def _differ(name: str, one: ExecutionPolicy, other: ExecutionPolicy) -> bool:
    return limits.current(one, name) != limits.current(other, name)


def _lowered(name: str, written: object, policy: ExecutionPolicy) -> str:
    used = limits.describe(name, limits.current(policy, name))
    return f"WasmKernel.limits: {name} is {written!r}; the administrator allows {used} at most, so {used} applies"
