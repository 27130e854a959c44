"""Forks of a guest on the workers of a Dask cluster: what is sent, what runs there, and what comes back."""
