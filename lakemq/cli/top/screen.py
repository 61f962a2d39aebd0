"""Where pages go: a terminal that they take for themselves, or one page after the other as text."""

from __future__ import annotations

import curses
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.output import stdout
from lakemq.cli.top.page import BOLD, DIM, Line, View, page
from lakemq.cli.top.watcher import ANSWER_S, Watcher

PLAIN_LINES, PLAIN_COLUMNS = 60, 1_000
"""Of a page that is text."""
LOOK_S = 0.2
"""So often it is seen whether a broker has answered."""
_QUIT = ("q", "Q", "\x03", "\x1b")
_COLOURS = {shown.NOWHERE: curses.COLOR_RED, shown.HERE: curses.COLOR_GREEN, shown.NAME: curses.COLOR_CYAN,
            shown.LABEL: curses.COLOR_YELLOW}  # fmt: skip


def may_be_taken() -> bool:
    """Whether there is a terminal that can be: one that a cursor can be moved on, with a keyboard."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and _is_named()):
        return False
    try:
        curses.setupterm()
    except curses.error:
        return False
    return bool(curses.tigetstr("cup"))


def _is_named() -> bool:
    """Whether it is known what the terminal can do."""
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def print_pages(watcher: Watcher, interval_s: float, once: bool) -> None:
    """One page after the other, until Ctrl-C or nobody reads them; or one, as soon as rates are known."""
    wait_s = max(interval_s, ANSWER_S) if once else interval_s  # there is no later page to say what comes late
    watcher.ask()
    watcher.wait(wait_s)
    while True:
        time.sleep(interval_s)
        watcher.ask()
        watcher.wait(wait_s)
        _print(watcher)
        if once:
            return
        sys.stdout.write("\n")


def _print(watcher: Watcher) -> None:
    """Raises `BrokenPipeError`."""
    console, view = stdout(), View(said=watcher.said)
    if console.is_terminal and _is_named():
        for line in page(watcher.watched(), view, console.width, max(console.height, PLAIN_LINES), keys=False):
            console.print(Text.assemble(*line), soft_wrap=True)
        return
    for line in page(watcher.watched(), view, PLAIN_COLUMNS, PLAIN_LINES, keys=False):
        sys.stdout.write("".join(piece.text for piece in line).rstrip() + "\n")
    sys.stdout.flush()


def show(watcher: Watcher, interval_s: float) -> None:
    """Take the terminal until somebody quits, and give it back as it was."""
    os.environ.setdefault("ESCDELAY", "25")
    before = signal.signal(signal.SIGTERM, _end)  # else it would leave the terminal as it is
    try:
        _taken(watcher, interval_s)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def _taken(watcher: Watcher, interval_s: float) -> None:
    """As `curses.wrapper`, which would have colours always."""
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        _run(window, watcher, interval_s)
    finally:
        window.keypad(False)
        curses.nocbreak()
        curses.echo()
        curses.endwin()


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _run(window: Any, watcher: Watcher, interval_s: float) -> None:
    with suppress(curses.error):  # a terminal that can't hide it
        curses.curs_set(0)
    colours = _colours()
    view, asked_s = View(), float("-inf")
    drawn: object = None
    window.timeout(round(LOOK_S * 1000))
    while True:
        now_s = time.monotonic()
        if now_s - asked_s >= interval_s:
            watcher.ask()
            asked_s = now_s
        # What is there may be many topics: a page is only made where something in it may be new.
        news = (watcher.looks, view, window.getmaxyx(), int(now_s))
        if news != drawn:
            height, width = window.getmaxyx()
            _draw(window, page(watcher.watched(), view._replace(said=watcher.said), max(width - 1, 1), height), colours)
            drawn = news
        key = _key(window)
        if key in _QUIT:
            return
        view = view.with_key(key)
        if key == " ":
            asked_s = float("-inf")


def _key(window: Any) -> str:
    """The next key; empty: there was none, or the terminal has another size now, which the next page has."""
    try:
        key = window.get_wch()
    except curses.error:
        return ""
    if key == curses.KEY_RESIZE:
        curses.update_lines_cols()
        window.clear()
    return key if isinstance(key, str) else ""


def _draw(window: Any, lines: list[Line], colours: dict[str, int]) -> None:
    window.erase()
    for row, line in enumerate(lines):
        column = 0
        for piece in line:
            with suppress(curses.error):  # the terminal became smaller meanwhile
                window.addstr(row, column, piece.text, colours.get(piece.colour, curses.A_NORMAL))
            column += len(piece.text)
    window.refresh()


def _colours() -> dict[str, int]:
    """What stands for each; none but bold and dim where the terminal has none, or the user wants none."""
    found = {BOLD: curses.A_BOLD, DIM: curses.A_DIM}
    if os.environ.get("NO_COLOR") or not curses.has_colors():
        return found
    curses.start_color()
    curses.use_default_colors()
    for number, (name, colour) in enumerate(_COLOURS.items(), 1):
        curses.init_pair(number, colour, -1)
        found[name] = curses.color_pair(number)
    return found
