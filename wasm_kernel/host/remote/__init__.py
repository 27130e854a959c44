"""Object stores: what sessions need of them, and no more."""
