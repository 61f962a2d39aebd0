"""Storing what a request brings: messages, halves, parts of sinks."""
