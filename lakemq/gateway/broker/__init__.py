"""The one broker of a gateway: its log, and what works on it."""
