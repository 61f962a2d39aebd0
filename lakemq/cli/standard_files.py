"""The three files that a command has from its shell."""

from __future__ import annotations

import os
import sys


def fill_in() -> None:
    """Put the null device where the shell has left nothing (`>&-`). Else the next file that is opened, maybe the
    log's, has that number, and gets what is written to the terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it has the lowest number that is free: this one
            os.set_inheritable(number, True)
        if number and getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115  it has no path, and stays
