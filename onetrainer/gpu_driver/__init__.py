"""What the driver of a graphics card tells."""
