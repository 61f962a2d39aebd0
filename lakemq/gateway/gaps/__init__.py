"""What is gone for good: it is counted, and readers are told."""
