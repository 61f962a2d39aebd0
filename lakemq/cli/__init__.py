"""The command `lakemq`.

Commands import what they need when they run, so that `lakemq --help` answers at once and only
the commands that use Spark load it.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit: 0, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.

    What went wrong stands in one line on stderr. An exception that nobody foresaw is a bug, and
    shows where it came from.
    """
    from typer import Abort, TyperException  # here: importing the package alone costs nothing

    from lakemq.cli.app import app
    from lakemq.cli.output import fail, fail_usage
    from lakemq.model.errors import LakemqError

    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        sys.exit(fail_usage(error))
    except Abort:
        sys.exit(fail("not done"))
    except LakemqError as error:
        sys.exit(fail(error.detail))
    except OSError as error:
        sys.exit(fail(str(error)))
    sys.exit(code if isinstance(code, int) else 0)
