"""Errors of the clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakemq.client.wrong_type import WrongType as WrongType
from lakemq.model.errors import LakemqError
from lakemq.wire.tls import NotTrusted

if TYPE_CHECKING:
    from lakemq.client.outgoing import Message


class Unreachable(LakemqError):
    """Nothing answered: no connection, or it broke, or the time for an answer ran out.

    `sent` says whether the request may have reached the broker, and so may have been carried out:
    False when there never was a connection.
    """

    code = "unreachable"

    def __init__(self, detail: str, sent: bool = True) -> None:
        super().__init__(detail)
        self.sent = sent


class Untrusted(NotTrusted, Unreachable):
    """Who answers has no certificate that is trusted here, or one of another name; or a name server that is asked by
    https names nobody but brokers that would be asked without. Nothing was sent to them, and it is the same until
    somebody changes a certificate, an address, or what is trusted."""

    def __init__(self, detail: str) -> None:
        Unreachable.__init__(self, detail, sent=False)


class Closed(LakemqError):
    """The client is closed: it takes nothing any more."""

    code = "closed"


class SendFailed(LakemqError):
    """A producer was closed and couldn't store all that it was given. `failures`: each message that nobody
    has been told of, and why; that of `Unreachable.sent` or of code `closed` may have been stored all the same."""

    code = "send_failed"

    def __init__(self, detail: str, failures: Sequence[tuple[Message, LakemqError]] = ()) -> None:
        super().__init__(detail)
        self.failures = tuple(failures)
