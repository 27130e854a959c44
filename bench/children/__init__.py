"""Programs that run in processes of their own. None imports anything of `bench`."""
