"""The page on which a model and LoRAs are tried."""
