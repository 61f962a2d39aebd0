"""How many messages one pull brings."""

MESSAGES_PER_PULL_MAX = 10_000
"""At most, where a broker's settings don't say otherwise; clients ask for no more at once."""
