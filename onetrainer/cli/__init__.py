"""The command line: commands, options, progress in a terminal."""
