"""What a program's values are as a message's bytes, in both directions."""
