"""Whole base models: folders, single files, VAE files."""
