"""Train and check the demo's base model; nothing here runs when a person trains."""
