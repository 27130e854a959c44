"""The Jupyter kernel: its sockets, its messages, its magics."""
