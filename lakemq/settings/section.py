"""What all sections of the settings have in common."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_address

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
HOUR_MS = 3_600_000


class Section(BaseModel):
    """One section."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def check_url(value: str) -> str:
    """The address, without a slash at its end. Raises `ValueError`."""
    try:
        return check_address(value).rstrip("/")
    except InvalidRequest as error:
        raise ValueError(error.detail) from None


def split_list(value: object) -> object:
    """The parts of a text with commas, as the environment has lists; anything else as it is."""
    return tuple(each.strip() for each in value.split(",") if each.strip()) if isinstance(value, str) else value


def of_json(value: object) -> object:
    """What the environment has as an object of JSON, such as `{"endpoint": "https://s3.example"}`; anything else as it
    is. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("in the environment it must be a JSON object") from None


Options = Annotated[dict[str, str], BeforeValidator(of_json)]
"""Settings whose names somebody else gives."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
