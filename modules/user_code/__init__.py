"""Python code of a person's own, run only if it is trusted."""
