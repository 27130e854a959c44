"""What uv and pip say when they fail, as one sentence for a person."""

from __future__ import annotations

import re

from wasm_kernel.errors import PackageError
from wasm_kernel.model.packages import key_of, why_not_compiled

_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]*)"
_DISK = re.compile(r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b", re.IGNORECASE)
_NETWORK = re.compile(
    r"error sending request|dns error|Failed to fetch|network was disabled|NewConnectionError|Max retries exceeded|"
    r"ConnectTimeoutError|ReadTimeoutError|ProxyError|NameResolutionError|Connection (refused|reset|timed out)|"
    r"Temporary failure in name resolution|SSLError|CERTIFICATE_VERIFY_FAILED|Network is unreachable",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    rf"(?:Because|and) {_NAME} was not found in the package registry|"
    rf"satisfies the requirement {_NAME}[^\n]*\(from versions: none\)"
)
_COMPILED = (
    re.compile(rf"Wheels are required for `{_NAME}`"),
    re.compile(rf"no matching distributions available for your environment:\s+{_NAME}"),
    re.compile(rf"{_NAME}(?:[<>=!~,][^\s]*)? ha(?:s|ve) no (?:usable wheels|wheels with)"),
)
_NO_VERSION = re.compile(
    rf"there (?:is|are) no versions? of {_NAME}([<>=!~][^\s,]*)|"
    rf"satisfies the requirement {_NAME}(\S*) \(from versions: (?!none)"
)
_BUILT_IN = re.compile(rf"{_NAME}==([0-9][^\s+]*)\+wasi")
_SECRET = re.compile(r"//[^/@\s]+@")
_DETAILS = 20  # lines


def explain(output: str, asked: list[str]) -> PackageError:
    """Why an installation failed, from what the installer said."""
    details = _details(output)
    if _DISK.search(output):
        return PackageError("disk", "the disk is full; free some space and install again", details)
    if _NETWORK.search(output):
        return PackageError(
            "network", "the package registry cannot be reached; check the network and your pip or uv settings", details
        )
    built_in = {key_of(m[1]) for m in _BUILT_IN.finditer(output)}
    found = [m[1] for pattern in _COMPILED for m in pattern.finditer(output)]
    compiled_ones = [name for name in found if key_of(name) not in built_in]
    if match := _NO_VERSION.search(output):
        wanted = "".join(part for part in match.groups() if part)
        if key_of(match[1] or match[3]) in {key_of(a) for a in asked}:
            return PackageError("unknown", f"there is no {wanted} that could run in the sandbox", details)
    if name := unknown_name(output):
        return PackageError("unknown", f"there is no package named {name}; check its spelling", details)
    if compiled_ones:
        return compiled(_worst(compiled_ones, asked), asked, output)
    if match := _BUILT_IN.search(output):
        return PackageError(
            "conflict",
            f"{', '.join(asked)} cannot be used with {match[1]} {match[2]}, which is part of the sandbox",
            details,
        )
    if "unsatisfiable" in output or "ResolutionImpossible" in output or "conflicting dependencies" in output:
        return PackageError("conflict", f"the requirements of {', '.join(asked)} contradict each other", details)
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
    return PackageError("installer", f"the installer failed: {_clean(last.strip())[:200]}", details)


def compiled(name: str, asked: list[str], output: str) -> PackageError:
    """The refusal of a package without a wheel in pure Python."""
    return PackageError("compiled", why_not_compiled(name, asked), _details(output))


def unknown_name(output: str) -> str:
    """The package an installer did not find; empty when that was not the problem."""
    match = _UNKNOWN.search(output)
    return next((g for g in match.groups() if g), "").rstrip(".") if match else ""


def _worst(names: list[str], asked: list[str]) -> str:
    """Of packages without a wheel, the one to name: what was asked for, if it is among them."""
    wanted = {key_of(a) for a in asked}
    return next((name for name in names if key_of(name) in wanted), names[-1])


def _details(output: str) -> str:
    return _clean("\n".join(output.splitlines()[-_DETAILS:]))


def _clean(text: str) -> str:
    return _SECRET.sub("//", text)
