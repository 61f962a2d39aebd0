"""Asking a gateway without an event loop."""
