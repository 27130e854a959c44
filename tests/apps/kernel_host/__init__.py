"""The kernel host: kernels forked for those who ask."""
