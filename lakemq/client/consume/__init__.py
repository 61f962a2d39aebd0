"""Consumers: what pushes, what is polled, what receives and acknowledges; asyncio throughout."""
