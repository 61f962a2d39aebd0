"""What went wrong, and is tried again, as the log says it: ours in a line, anything else with its trace."""

from __future__ import annotations

import logging

from lakemq.model.errors import LakemqError


def wait_of(error: Exception, wait_s: float) -> float:
    """How long to wait before it is tried again: `wait_s`, or as long as the answer says."""
    return max(wait_s, error.retry_after_s if isinstance(error, LakemqError) else 0)


def say_failed(logger: logging.Logger, error: Exception, what: str, level: int = logging.WARNING) -> None:
    """Log what can't be done now, and why. What nobody expects is a warning whatever `level` is."""
    expected = isinstance(error, LakemqError)
    logger.log(level if expected else logging.WARNING, "%s: %s", what, error, exc_info=None if expected else error)
