"""Jobs without a run folder, and what each can be asked for."""
