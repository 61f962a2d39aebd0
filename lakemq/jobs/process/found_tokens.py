"""The administrator's tokens of brokers on this machine, found before Spark starts.

Spark's processes each have clients of their own. If they know the token's file beforehand, none of them has to be
refused without a token first, which is a record in the broker's audit each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing

from lakemq.contract.sql_routes import OWN_ACCESS
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import to_url
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.credentials import Credentials, files_as_environment
from lakemq.wire.found_token import is_loopback

ASK_S_MAX = 5.0


def find_tokens_first(addresses: Iterable[str]) -> None:
    """Ask each broker on this machine whose token's file isn't known once, and tell the processes that are started from
    now on. A broker that doesn't answer now is left out: its clients find the token later."""
    credentials = Credentials()
    for address in addresses:
        if not address or not is_loopback(address) or credentials.headers(to_url(address)):
            continue
        with closing(Connections(address, credentials)) as connections:
            try:
                connections.ask(OWN_ACCESS.at(), timeout_s=ASK_S_MAX)
            except (NoAnswer, InvalidRequest):
                continue
    os.environ.update(files_as_environment(credentials.files))
