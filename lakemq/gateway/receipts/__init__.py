"""What was handed out to a group: it is acknowledged, or its time is over."""
