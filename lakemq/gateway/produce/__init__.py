"""Storing what a request brings: messages and halves."""
