"""Page that previews and checks the images."""
