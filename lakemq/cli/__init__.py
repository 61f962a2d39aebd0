"""The command `lakemq`.

Commands import what they need when they run, so that `lakemq --help` answers at once and only
the commands that use Spark load it.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
MISSING = 2
"""The exit code where a package isn't installed, and an extra brings it: as for an option that isn't known."""


def main() -> None:
    """Run the command line and exit: 0, 1 for an error, 2 for wrong usage or a missing extra, 130 after Ctrl-C.

    What went wrong stands in one line on stderr. An exception that nobody foresaw is a bug, and
    shows where it came from.
    """
    try:
        _run()
    except KeyboardInterrupt:  # while the command was not there yet: what is imported takes a while
        sys.exit(INTERRUPTED)


def _run() -> None:
    from lakemq.cli.standard_files import fill_in

    fill_in()
    from typer import Abort, TyperException  # here: importing the package alone costs nothing

    from lakemq.cli.app import command
    from lakemq.cli.extras import MissingExtra
    from lakemq.cli.output import fail, fail_usage
    from lakemq.model.errors import LakemqError
    from lakemq.model.interrupted import was_interrupted

    try:
        code = command()(standalone_mode=False)
    except TyperException as error:
        sys.exit(fail_usage(error))
    except MissingExtra as error:
        sys.exit(fail(error.detail, MISSING))
    except Abort:
        sys.exit(fail("not done"))
    except LakemqError as error:
        sys.exit(fail(error.detail))
    except UnicodeEncodeError as error:
        sys.exit(fail(_unwritable(error)))
    except Exception as error:
        if was_interrupted(error):
            sys.exit(INTERRUPTED)
        if not isinstance(error, OSError):
            raise
        sys.exit(fail(str(error)))
    sys.exit(code if isinstance(code, int) else 0)


def _unwritable(error: UnicodeEncodeError) -> str:
    """Of a text that can't be said in an encoding: an argument that is no text, or a terminal of an older kind."""
    what = ascii(error.object[error.start : error.end][:40])
    if error.encoding.replace("-", "").lower() == "utf8":
        return f"an argument is no UTF-8: {what}"
    return f"the output's encoding, {error.encoding}, has no {what}; PYTHONIOENCODING=utf-8 has all"
