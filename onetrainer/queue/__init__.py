"""The queue of runs of this user, which one process after the other serves."""
