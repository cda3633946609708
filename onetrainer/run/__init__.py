"""The interface between a run and its observers: folder, events, commands, client."""
