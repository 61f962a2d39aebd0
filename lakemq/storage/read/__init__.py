"""Reading what the log holds: by queue and offset, by position, by time; what a request with a key was answered."""
