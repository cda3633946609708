"""Adapters: LoRA, DoRA, LoHa, LoKr and OFT."""
