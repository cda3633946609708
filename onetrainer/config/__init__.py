"""The typed config: one class per section, one field per setting."""
