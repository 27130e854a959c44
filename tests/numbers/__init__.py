"""Numbers are those of a 64-bit machine: the guest's answers beside native ones. `test_numbers.py` says how."""
