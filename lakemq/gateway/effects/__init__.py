"""Carrying out what was decided: one cause has one effect."""
