"""Learning rate schedules and timestep distributions, without torch."""
