"""The config being edited. No Tk."""
