"""What the gateway does to its log by itself: quarantine, dropping, cleaning up what the lake has."""
