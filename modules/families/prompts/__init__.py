"""Prompts as token ids and text-encoder outputs."""
