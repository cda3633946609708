"""LoRA and its relatives."""
