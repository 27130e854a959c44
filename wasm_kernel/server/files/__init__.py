"""A session's files over HTTP."""
