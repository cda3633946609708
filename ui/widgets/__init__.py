"""Widgets that pages and forms are made of."""
