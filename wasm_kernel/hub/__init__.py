"""The JupyterHub service: prunes, archives and shows what all users left."""
