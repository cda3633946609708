"""LoRA files and their relatives, in the naming of every program."""
