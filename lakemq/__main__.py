"""`python -m lakemq`: the same as the command `lakemq`."""

from __future__ import annotations

from lakemq.cli import main

main()
