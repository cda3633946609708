"""Dialogs: questions, files, presets, trust."""
