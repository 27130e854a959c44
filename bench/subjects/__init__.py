"""The subjects measured, one module each: `run(setting)` gives its section of the report."""
