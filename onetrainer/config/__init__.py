"""The settings of a run: their definition, checks and migration."""
