"""Learning-rate schedules and timestep distributions as plain maths."""
