"""Prompts as CLIP token ids and text-encoder outputs."""
