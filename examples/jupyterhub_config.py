"""A JupyterHub whose users have the kernel: start from this, with your own authenticator and spawner.

pip install "wasm-kernel[hub]" jupyterlab jupyterhub-idle-culler
npm install -g configurable-http-proxy
export WASM_KERNEL_CACHE=/srv/jupyterhub/wasm-kernel-cache
wasm-kernel install --sys-prefix
export HUB_PASSWORD=… HUB_ADMIN_PASSWORD=…    # at least 8 and 32 characters
jupyterhub -f jupyterhub_config.py
"""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821 - JupyterHub provides it

# ---- Who may log in. Everybody shares a password here: put your own authenticator in its place.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["HUB_PASSWORD"]
c.SharedPasswordAuthenticator.admin_password = os.environ["HUB_ADMIN_PASSWORD"]
c.Authenticator.allowed_users = {"ann", "bob"}
c.Authenticator.admin_users = {"admin"}

# ---- Where their servers run. This spawner needs no accounts on the machine, but it keeps nobody out of anybody's
# home: put your own in its place, too.
HOMES = Path(os.environ.get("HUB_HOMES", "/srv/jupyterhub/homes"))
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.default_url = "/lab"
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
# The image is built once, by `wasm-kernel install`.
c.Spawner.environment = {
    "WASM_KERNEL_CACHE": os.environ.get("WASM_KERNEL_CACHE", "/srv/jupyterhub/wasm-kernel-cache"),
}

# ---- Servers nobody uses are stopped. The kernel saves variables before it ends: the next one goes on from there.
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"],
    },
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "services": ["idle-culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    },
]
