"""Reading a queue, at once or when there is something."""
