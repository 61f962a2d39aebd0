"""The server: connections, the requests that are served without ASGI, start and stop."""
