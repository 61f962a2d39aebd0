"""Into which queue a message goes."""
