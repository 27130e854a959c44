"""Users' workspaces, here or behind their own servers, and the confined processes that work in them."""
