"""Widgets shared by pages and forms."""
