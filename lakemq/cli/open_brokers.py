"""Brokers whose users and policies are changed, with a warning while they also serve requests without a token."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

import typer

from lakemq.cli.brokers import Named, connect_all
from lakemq.cli.output import remark
from lakemq.model.errors import LakemqError


@contextmanager
def connect_with_warning(context: typer.Context, broker: str | None, nameservers: str | None) -> Generator[list[Named]]:
    """As `connect_all`. When the work is done, it warns of brokers where policies limit only requests that send a
    token."""
    with connect_all(context, broker, nameservers) as brokers:
        yield brokers
        for name, client in brokers:
            with suppress(LakemqError):  # the work is done: a broker that can't say it is no error
                if not client.users.token_required():
                    remark(
                        f"warning: {name or 'this broker'} serves requests without a token on its own machine"
                        " (loopback): policies limit only requests that send one, until auth.required = true"
                    )
