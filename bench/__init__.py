"""Measurements of wasm-kernel beside native CPython: `python -m bench`, which writes `bench/RESULTS.md`.

How it measures: contenders alternate within each round, and the order rotates from round to round, so that a
machine that slows down slows all of them. A cell is the median over the rounds with the best in brackets; a ratio
is the median of the rounds' own ratios.
"""
