"""The typed config: one class a section, one field a setting."""
