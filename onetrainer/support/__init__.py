"""Help when something does not work: the state of this computer, and reports about a run."""
