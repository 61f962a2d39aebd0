"""Asking a gateway of this machine as its administrator, where it wants to know who asks."""

from __future__ import annotations

from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path

import httpx


class AsAdministrator(httpx.Auth):
    """Who is asked for a token has the administrator's, as the gateway says where that is, or the one that is given;
    all else is asked by nobody in particular."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """httpx's."""
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            response.read()
            token = self._token or Path(response.json()["token_file"]).read_text("ascii").strip()
            request.headers["Authorization"] = f"Bearer {token}"
            yield request
