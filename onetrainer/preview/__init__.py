"""Preview what a run will do with its images."""
