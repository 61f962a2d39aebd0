"""Whom a client trusts that asks by TLS, and by which certificate it says who it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakemq.model.environment import name_of

SECTION = "tls"


class Trust(NamedTuple):
    """Files, by the names of their settings; empty: none. `ca_file`: certificates of authorities that are trusted
    beside the system's. `client_cert_file`, `client_key_file`: of who asks, for servers that want one."""

    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""

    def as_environment(self) -> dict[str, str]:
        """As the environment says it to processes that read no settings."""
        return {name_of(SECTION, key): file for key, file in self._asdict().items() if file}


def trust_of(environment: Mapping[str, str]) -> Trust:
    """What the environment says, by the names of the settings."""
    return Trust(*(environment.get(name_of(SECTION, key), "") for key in Trust._fields))
