"""Work beside the window: threads, the watched run, background queries."""
