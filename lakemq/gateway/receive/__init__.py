"""Simple consumption: messages are handed out, and come again unless they are acknowledged in time."""
