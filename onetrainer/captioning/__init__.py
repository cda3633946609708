"""Captions and masks by models: results of a job, and what is written of them."""
