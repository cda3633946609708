"""A device that stores and computes nothing, to count what a run would take."""
