"""Sections about what is trained: adapters, full fine-tuning, embeddings."""
