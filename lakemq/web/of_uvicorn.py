"""What is taken of uvicorn, or put in its place: hardly any of it is public, so the version is pinned."""

from __future__ import annotations

PROTOCOL = (
    *("_start_asgi_task", "data_received", "send_400_response", "server", "server_state", "loop", "app", "client"),
    *("connection_made", "connection_lost", "transport", "flow", "pause_writing", "resume_writing"),
    *("parser", "on_message_begin", "on_headers_complete", "on_body", "on_message_complete", "on_response_complete"),
    *("url", "headers", "expect_100_continue", "cycle", "pipeline", "scheme", "root_path", "asgi_version", "app_state"),
    *("logger", "on_header"),
)
"""Of its connection."""

CYCLE = (
    *("scope", "transport", "flow", "logger", "message_event", "on_response", "disconnected", "keep_alive", "send"),
    *("access_log", "body", "more_body", "chunked_encoding", "expected_content_length", "waiting_for_100_continue"),
    *("response_started", "response_complete", "default_headers"),
)
"""Of its cycle of one request: all that it has but the log of accesses."""
