"""Model families: how each loads, encodes text, predicts and decodes."""
