"""What the gateway does to its log by itself: quarantine, dropping, letting go of what the lake has."""
