"""The edited config without Tk."""
