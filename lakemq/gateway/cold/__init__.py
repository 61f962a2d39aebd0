"""What has left the log, served from the lake, and what is gone for good."""

from lakemq.gateway.cold.reader import ColdReader

__all__ = ["ColdReader"]
