"""Model families: loading, text encoding, noise prediction and decoding."""
