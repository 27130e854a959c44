"""A JupyterHub whose users have the kernel: start from this, with your own authenticator and spawner.

pip install "wasm-kernel[hub]" jupyterlab jupyterhub-idle-culler
npm install -g configurable-http-proxy
mkdir -p /etc/wasm-kernel && echo 'image_cache = "/opt/wasm-kernel"' > /etc/wasm-kernel/administrator.toml
wasm-kernel install --sys-prefix
export HUB_PASSWORD=… HUB_ADMIN_PASSWORD=…    # at least 8 and 32 characters
jupyterhub -f jupyterhub_config.py
"""

import json
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
# The image is built once, by `wasm-kernel install`, where the administrator's file says (`image_cache`, above). What
# users may have at most is ruled by the same file: docs/administrators.md.

# ---- Servers nobody uses are stopped. The kernel saves variables before it ends: the next one goes on from there.
culler = {
    "name": "idle-culler",
    "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"],
}
culler_role = {
    "name": "idle-culler",
    "services": ["idle-culler"],
    "scopes": [
        "list:users",
        "read:users:activity",  # when a user was last there
        "read:servers",  # when a server was last used
        "delete:servers",
    ],
}

# ---- Sessions nobody uses are archived and deleted, after their users were told. Who looks after that finds a page at
# /services/wasm-kernel-hub/.
pruner = {
    "name": "wasm-kernel-hub",
    "url": "http://127.0.0.1:10203",
    "command": [sys.executable, "-m", "wasm_kernel.hub.app"],
    "oauth_no_confirm": True,  # whoever may see the page is not asked whether it may know their name
    "environment": {
        "WASM_KERNEL_HUB_WORKSPACE_TEMPLATE": str(HOMES / "{username}/.local/share/wasm-kernel/workspace"),
        "WASM_KERNEL_HUB_STATE_FOLDER": str(HOMES.parent / "wasm-kernel-hub"),
        "WASM_KERNEL_HUB_ARCHIVE_FOLDER": str(HOMES.parent / "archives"),
        "WASM_KERNEL_HUB_LOCKS_VISIBLE": "true",  # users' servers run on this very machine
        "WASM_KERNEL_HUB_INTERVAL": "6h",
        "WASM_KERNEL_HUB_POLICY": json.dumps({"max_age": "90d", "warn_before": "7d", "archive": True}),
        "WASM_KERNEL_HUB_GROUP_POLICIES": json.dumps({"students": {"max_age": "30d", "max_total": "10G"}}),
        "WASM_KERNEL_HUB_OPERATOR_GROUPS": json.dumps(["operators"]),
    },
}
pruner_role = {
    "name": "wasm-kernel-hub",
    "services": ["wasm-kernel-hub"],
    "scopes": [
        "list:users",  # whose workspaces there are
        "read:users:groups",  # whose policy is a group's; not needed without group policies
        "read:servers",  # who has a running server
    ],
}
# Administrators may see the page anyway; this group may, too.
operators_role = {
    "name": "wasm-kernel-operators",
    "groups": ["operators"],
    "scopes": ["access:services!service=wasm-kernel-hub"],
}

c.JupyterHub.services = [culler, pruner]
c.JupyterHub.load_groups = {"operators": {"users": []}, "students": {"users": []}}
c.JupyterHub.load_roles = [culler_role, pruner_role, operators_role]
