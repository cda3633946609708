"""What a guided start finds out, and the settings that follow from a person's answers."""
