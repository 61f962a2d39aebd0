"""What has left the log, served from the lake."""

from lakemq.gateway.cold.reader import ColdReader

__all__ = ["ColdReader"]
