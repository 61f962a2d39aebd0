"""The HTTP contract as data: the gateway finds its handlers by it, and clients their paths. Nothing here does I/O."""
