"""The store of snapshots: chunks named by their content, and manifests that name them."""
