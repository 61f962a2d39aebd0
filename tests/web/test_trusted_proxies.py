"""Which proxies may be named, and what that takes."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.errors import SettingsError
from lakemq.settings import Settings, load


def test_nobody_is_believed_by_default() -> None:
    settings = Settings()
    assert {section.trusted_proxies for section in (settings.gateway, settings.nameserver, settings.sql_http)} == {()}


@pytest.mark.parametrize(
    ("section", "proxies", "auth", "said"),
    [
        (
            "gateway",
            "127.0.0.1",
            {},
            "gateway.trusted_proxies allows access from other machines through a proxy: this needs auth.required",
        ),
        (
            "sql_http",
            "127.0.0.1",
            {},
            "sql_http.trusted_proxies allows access from other machines through a proxy: this needs auth.required",
        ),
        (
            "nameserver",
            "127.0.0.1",
            {"required": True},
            "nameserver.trusted_proxies allows access from other machines: anyone who reaches it",
        ),
        ("gateway", "0.0.0.0/0", {"required": True}, "0.0.0.0/0 is everybody"),
        ("gateway", "10.0.0.1/8", {"required": True}, "has host bits set"),
        ("gateway", "proxy.example", {"required": True}, "does not appear to be an IPv4 or IPv6 network"),
    ],
)
def test_what_would_let_anybody_be_anybody_is_refused(section: str, proxies: str, auth: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(environment={}, options={section: {"trusted_proxies": proxies}, "auth": auth})


@pytest.mark.parametrize("auth", [{"required": True}, {"insecure": True}])
def test_they_are_addresses_and_networks_with_commas_between(auth: Any) -> None:
    settings = load(environment={"LAKEMQ_GATEWAY__TRUSTED_PROXIES": "10.1.0.0/16, ::1"}, options={"auth": auth})
    assert settings.gateway.trusted_proxies == ("10.1.0.0/16", "::1")
