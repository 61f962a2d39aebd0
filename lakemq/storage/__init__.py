"""The CommitLog: frames, segments, indexes and recovery."""
