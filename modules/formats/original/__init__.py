"""The original layout of Stable Diffusion: one file, with other tensor names than diffusers."""
