"""Who asks, and what they may: tokens, rights, and the users that the log knows."""
