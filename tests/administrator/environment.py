"""An interpreter with a prefix of its own, whose administrator is the test, and kernels of it."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

from tests.conformance.client import Kernel

# Switches all rules off, for those who show that an attack would get its way without them.
_SWITCH = """
import os
if os.environ.get("TEST_WITHOUT_RULES"):
    from wasm_kernel.host import administrator
    from wasm_kernel.model.administrator import Rules
    administrator.rules = Rules
if os.environ.get("TEST_ENVIRONMENT_PASSED_ON"):
    from wasm_kernel.model import policy
    made = policy.ExecutionPolicy.__init__
    def passed_on(self, *args, **kwargs):
        made(self, *args, **{**kwargs, "env": {k: v for k, v in os.environ.items() if k.startswith(("JUPYTERHUB_", "JPY_"))}})
    policy.ExecutionPolicy.__init__ = passed_on
"""
WITHOUT_RULES = {"TEST_WITHOUT_RULES": "1"}
ENVIRONMENT_PASSED_ON = {"TEST_ENVIRONMENT_PASSED_ON": "1"}


class Environment:
    """A virtual environment that has every package of this one."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.folder, self.python = folder, folder / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        real = sysconfig.get_path("purelib")
        (packages / "real.pth").write_text(f"import site; site.addsitedir({real!r})\n")
        (packages / "sitecustomize.py").write_text(_SWITCH)
        self.home = folder.parent / f"{folder.name}-home"
        (self.home / ".jupyter").mkdir(parents=True)

    @property
    def file(self) -> Path:
        """The administrator's."""
        return self.folder / "etc" / "wasm-kernel" / "administrator.toml"

    def rule(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        self.file.chmod(0o644)

    def configure(self, text: str, name: str = "jupyter_wasm_kernel_config.py") -> None:
        """What the user writes in their home."""
        (self.home / ".jupyter" / name).write_text(text)

    def environ(self, **more: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER"))}
        return {**inherited, "JUPYTER_CONFIG_DIR": str(self.home / ".jupyter"), **more}

    def run(self, code: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A program of the user's that uses the library."""
        return subprocess.run(
            [self.python, "-P", "-c", code], capture_output=True, text=True, timeout=120, env=self.environ(**env)
        )

    def kernel(self, root: Path, **env: str) -> RuledKernel:
        return RuledKernel(self, root, **env)


class RuledKernel(Kernel):
    """A kernel of such an environment. ``root`` is where the user would like the sessions to be."""

    def __init__(self, environment: Environment, root: Path, **env: str) -> None:
        self.root = root
        self.manager = KernelManager(kernel_name="wasm")
        spec: Any = self.manager.kernel_spec
        spec.argv[0] = str(environment.python)
        self.log = environment.folder.parent / f"{environment.folder.name}.log"
        with self.log.open("ab") as log:
            self.manager.start_kernel(
                env=environment.environ(WASM_KERNEL_WORKSPACE=str(root), **env), stdout=log, stderr=log
            )
        self.others = []
        self.connect()
