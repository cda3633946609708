"""Background work of the window: threads, the followed run, and queries about the draft."""
