"""The contract between a run and those who watch it: folder, events, commands, client."""
