"""The page that previews and checks the images."""
