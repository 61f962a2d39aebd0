"""What was read, from the log or from the lake."""
