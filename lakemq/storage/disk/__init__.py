"""The one way to the disk and to the clock: files whose every write, sync and rename tests can take away."""
