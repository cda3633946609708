"""The cache folder: encoded images, masks and captions, kept between runs. No torch."""
