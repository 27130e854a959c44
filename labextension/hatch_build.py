"""Has the JupyterLab extension built before a wheel or a source distribution is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import build


class LabExtensionHook(BuildHookInterface[Any]):
    """Builds the extension if it is not built from these sources."""

    def dependencies(self) -> list[str]:
        """What building takes."""
        return [] if build.is_current() else build.REQUIREMENTS

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it."""
        build.build()
