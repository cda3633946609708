"""What is minimised: a batch in, a loss out."""
