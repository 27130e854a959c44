"""What a front end shows beside the notebook: history, variables, usage. Its other half is `labextension/`."""
