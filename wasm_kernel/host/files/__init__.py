"""Files that a guest can change at any moment, as the host reads, measures, saves and deletes them."""
