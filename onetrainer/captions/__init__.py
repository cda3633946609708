"""What is said of pictures: where it comes from, and how it changes from turn to turn."""
