"""What the rules keep of what they were asked before."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def _nothing_remembered() -> None:
    """Coverage counts here alone: an answer that a test elsewhere left in a cache of this process would hide the
    lines that make it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("lakemq.model"):
            for rule in vars(module).values():
                if hasattr(rule, "cache_clear"):
                    rule.cache_clear()
