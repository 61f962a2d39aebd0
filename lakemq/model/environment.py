"""Names in the environment: settings are `LAKEMQ_SECTION__KEY`, and a few other names are lakemq's own.

A name that begins so and means nothing is a mistake that would be ignored in silence: it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from lakemq.model.errors import SettingsError

PREFIX = "LAKEMQ_"
BROKER = "LAKEMQ_BROKER"
"""Where clients, commands and notebooks look for the gateway."""
NAMESERVERS = "LAKEMQ_NAMESERVERS"
"""Where clients ask which gateways there are, before they look at the name above."""
NOTEBOOK = "LAKEMQ_NOTEBOOK"
"""For a notebook's process: the settings of who runs it, in JSON."""
CHECKPOINT = "LAKEMQ_CHECKPOINT"
"""Where the notebook with a stream keeps its checkpoint."""
TOKEN = "LAKEMQ_TOKEN"  # noqa: S105  (a name)
"""The token by which clients, commands and jobs say who they are."""
TOKEN_FILE = "LAKEMQ_TOKEN_FILE"  # noqa: S105  (a name)
"""The file that has it, where the name above has none."""
FOUND_TOKENS = "LAKEMQ_FOUND_TOKENS"
"""For processes that lakemq starts: the files with this machine's administrator's tokens, by address, in JSON. So they
need not ask without a token first to learn them."""
OTHERS = (BROKER, NAMESERVERS, NOTEBOOK, CHECKPOINT, TOKEN, TOKEN_FILE, FOUND_TOKENS)
TESTS = "LAKEMQ_TEST_"
"""Names that only the tests read."""

_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
"""Kubernetes tells each container of a service named lakemq or lakemq-gateway by names like these; and
`LAKEMQ_GATEWAY_PORT` is an address then."""

Names = Mapping[str, Collection[str]]
"""The keys of each section."""


def is_malloc_said(environment: Iterable[str]) -> bool:
    """Whether somebody has said how the C library (glibc) is to allocate memory: then it isn't told otherwise."""
    return any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in environment)


def read_environment(environment: Mapping[str, str], known: Names) -> dict[str, dict[str, object]]:
    """The settings that the environment names, by section and key.

    Raises `SettingsError` for a name that is none, with the right spelling where it is near one. A key
    that its section doesn't have is left to who checks the settings.
    """
    layer: dict[str, dict[str, object]] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in OTHERS or name.startswith(TESTS) or _is_of_a_service(name, value):
            continue
        section, underscores, key = name.removeprefix(PREFIX).lower().partition("__")
        if not underscores or section not in known:
            raise SettingsError(f"{name} in the environment is no setting: {_hint(name, known)}")
        layer.setdefault(section, {})[key] = value
    return layer


def name_of(section: str, key: str) -> str:
    """How the environment calls a setting."""
    return f"{PREFIX}{section}__{key}".upper()


def _is_of_a_service(name: str, value: str) -> bool:
    return "__" not in name and bool(_SERVICE.search(name) or (name.endswith("_PORT") and _ADDRESS.match(value)))


def _hint(name: str, known: Names) -> str:
    alone = name.removeprefix(PREFIX).lower()
    if of_that_key := [name_of(section, alone) for section, keys in known.items() if alone in keys]:
        return f"did you mean {' or '.join(of_that_key)}?"
    names = [name_of(section, key) for section, keys in known.items() for key in keys]
    plain = {_plain(each): each for each in (*names, *OTHERS)}
    near = get_close_matches(_plain(name), plain, n=1, cutoff=0.75)
    if not near:
        return f"settings are named {PREFIX}SECTION__KEY"
    found = plain[near[0]]
    return f"did you mean {found}?" + (" (two underscores)" if _plain(found) == _plain(name) else "")


def _plain(name: str) -> str:
    return name.upper().replace("_", "")
