from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import httpx
import pytest

from lakemq.testing import NameServerProcess, start_nameserver
from tests.nameserver.asking import connect

_numbers = count()


@pytest.fixture(scope="session")
def nameserver() -> Iterator[NameServerProcess]:
    """One for all tests that neither stop it nor set it up otherwise."""
    with start_nameserver() as process:
        yield process


@pytest.fixture(scope="session")
def http(nameserver: NameServerProcess) -> Iterator[httpx.Client]:
    """A client of it."""
    with connect(nameserver) as client:
        yield client


@pytest.fixture
def broker() -> str:
    """A name that no other test uses, as part of which a topic's name is one, too."""
    return f"broker-{next(_numbers)}"
