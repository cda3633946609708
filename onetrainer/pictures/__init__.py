"""Picture files: what they hold, what is known of them, how they are shown, what is wrong."""
