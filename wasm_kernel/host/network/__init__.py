"""A guest's way out: connections that the host opens for it, to the hosts that it was granted.

The guest asks for names (`guest_network` answers its frames); the host looks them up once, judges the address,
connects, and speaks TLS. What crosses is bytes, counted and capped.
"""
