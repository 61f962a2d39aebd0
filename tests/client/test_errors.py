"""A gateway that isn't there."""

from __future__ import annotations

import pytest

from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.model.errors import InvalidRequest


def test_nobody_there_is_unreachable_and_names_the_url() -> None:
    url = "http://127.0.0.1:1"  # a port that nobody listens on
    with HttpClient(url) as client, pytest.raises(Unreachable, match=url) as raised:
        client.broker()
    assert not raised.value.sent


def test_nobody_there_is_not_ready() -> None:
    with HttpClient("http://127.0.0.1:1") as client:
        assert not client.is_ready()


@pytest.mark.parametrize("address", ["ftp://there", "http://", "http://there:port", ""])
def test_what_is_no_address_is_told_at_once(address: str) -> None:
    with pytest.raises(InvalidRequest, match="is no address like"):
        HttpClient(address)
