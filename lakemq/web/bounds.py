"""What one connection may send, and how much of it is taken in at once."""

from __future__ import annotations

HEAD_BYTES_MAX = 64 * 1024
"""Of a request line and its headers, of a chunk's extensions, of trailers: what is no body."""
PIECE_BYTES = 2 * 1024
"""So much that comes at once is parsed as it is. More is parsed request by request, since it may be many."""
NEARLY_ALL = HEAD_BYTES_MAX - PIECE_BYTES
PARSED_BYTES = 4 * 1024
"""About what a request takes that was parsed and waits for its turn."""
AHEAD_BYTES_MAX = 64 * 1024
"""When more has come than this ahead of its turn, nothing more is read."""
TOO_MANY_BYTES = "the bodies on their way, or this client's of them (client_share in the settings), are too many bytes"
TOO_LONG = f"the request's line and headers have more than {HEAD_BYTES_MAX} bytes"
