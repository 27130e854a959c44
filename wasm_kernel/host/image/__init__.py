"""The image a guest starts from: what it is made of, and how it is built."""
