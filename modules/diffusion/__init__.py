"""Diffusion mathematics: schedule, noise, targets, timesteps, loss weights."""
