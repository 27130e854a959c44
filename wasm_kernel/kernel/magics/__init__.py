"""The host's magics: %session, %prune, %pip."""
