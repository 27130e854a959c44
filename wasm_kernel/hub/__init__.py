"""The JupyterHub service: prunes, archives and shows the sessions of all users."""
