"""LoRA and related adapter files in every program's naming."""
