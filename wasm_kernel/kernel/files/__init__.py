"""The files of a session in the notebook: a browser made of widgets, previews, downloads and uploads."""
