"""Diffusion mathematics: schedule, noise, targets, timesteps."""
