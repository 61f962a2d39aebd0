"""Redrives: dead letters that satisfy a predicate, on their way to their group once more.

A redrive is a record in `REDRIVE_TOPIC` that says which dead letters it is about, and is a pending
cause until its second record, with what became of each, is its effect. So is each dead letter until
its copy in `%RETRY%{group}` is: a redrive goes on after a crash where it stopped.

A discard is one record in `DISCARD_TOPIC` for thousands of letters, and done as soon as that is stored.
"""

from __future__ import annotations

from lakemq.gateway.redrive.discarder import Discarder
from lakemq.gateway.redrive.listing import Listing
from lakemq.gateway.redrive.redriver import Redriver

__all__ = ["Discarder", "Listing", "Redriver"]
