"""The cache folder: encoded pictures, masks and captions, kept between runs. No torch."""
