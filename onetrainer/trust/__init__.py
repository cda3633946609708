"""Which of a person's own functions may be run."""
