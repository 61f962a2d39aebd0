"""The rules of connections are tried on a real gateway too."""

from tests.gateway.conftest import fresh_gateway, gateway, http, topic

__all__ = ["fresh_gateway", "gateway", "http", "topic"]
