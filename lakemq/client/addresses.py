"""Which addresses a client was given, or finds in its environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, cast

from lakemq.client.wrong_type import WrongType
from lakemq.model.environment import BROKER, NAMESERVERS
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_address

DEFAULT_ADDRESS = "http://127.0.0.1:8080"

Given = str | Sequence[str] | None
"""Addresses as a list, or as text with commas between."""


class Addresses(NamedTuple):
    """Where a client begins: at brokers, or at name servers. One of the two is empty."""

    brokers: list[str]
    nameservers: list[str]


def find_addresses(brokers: Given = None, nameservers: Given = None) -> Addresses:
    """What a program says goes before the environment, and there LAKEMQ_NAMESERVERS before LAKEMQ_BROKER; with
    none of these it is this machine's broker. Raises `InvalidRequest`, also for both of them."""
    if brokers is not None and nameservers is not None:
        raise InvalidRequest("give brokers or nameservers, not both")
    if brokers is not None:
        return Addresses(parse_addresses(brokers, "brokers"), [])
    named = nameservers if nameservers is not None else os.environ.get(NAMESERVERS) or None
    if named is not None:
        return Addresses([], parse_addresses(named, "nameservers"))
    return Addresses(parse_addresses(os.environ.get(BROKER, DEFAULT_ADDRESS), "brokers"), [])


def parse_addresses(given: str | Sequence[str], what: str) -> list[str]:
    """Addresses, from a list or a text with commas, each once. Raises `InvalidRequest`."""
    listed = cast("object", given.split(",") if isinstance(given, str) else given)
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in cast("Sequence[object]", listed)):
        raise WrongType(f"{what} are addresses, in a list or with commas between", given)
    addresses = [address.strip().rstrip("/") for address in cast("Sequence[str]", listed) if address.strip()]
    if not addresses:
        raise InvalidRequest(f"{what} names no address; give one such as {DEFAULT_ADDRESS}")
    return list(dict.fromkeys(check_address(address) for address in addresses))
