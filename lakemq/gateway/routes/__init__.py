"""Which handler serves which path."""
