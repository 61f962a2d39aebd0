"""The HTTP gateway: it moves bytes between connections and the CommitLog."""
