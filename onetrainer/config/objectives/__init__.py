"""What the denoising objective is made of, a file for each of its questions."""
