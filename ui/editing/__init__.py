"""Images with the captions and masks that are edited on their page. No Tk."""
