"""Build what a run consists of, from its whole config."""
