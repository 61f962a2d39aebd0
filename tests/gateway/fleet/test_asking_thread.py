"""Whoever is asked may be silent for long: only who asked waits for that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from lakemq.gateway.fleet.asking_thread import AskingThread
from tests.gateway.http_client import WAIT_S


def threads_named(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == name]


def test_one_thread_answers_all_questions_in_their_order_and_ends_when_it_is_closed() -> None:
    async def scene() -> None:
        thread, asked = AskingThread("in order"), list[int]()
        assert not threads_named("in order")
        await asyncio.gather(*(thread.ask(partial(asked.append, number)) for number in range(100)))
        assert asked == list(range(100))
        (kept,) = threads_named("in order")
        assert await thread.ask(threading.current_thread) is kept
        thread.close()
        thread.close()
        await asyncio.to_thread(kept.join, WAIT_S)
        assert not kept.is_alive()
        assert await thread.ask(threading.current_thread) is not kept
        thread.close()

    asyncio.run(scene())


def test_what_a_question_raises_is_told_and_the_next_one_is_answered() -> None:
    async def scene() -> None:
        thread = AskingThread("raises")
        with pytest.raises(ValueError, match="invalid literal"):
            await thread.ask(lambda: int("x"))
        with pytest.raises(SystemExit):
            await thread.ask(sys.exit)
        assert await thread.ask(lambda: 1) == 1
        thread.close()

    asyncio.run(scene())


def test_a_question_that_nobody_waits_for_any_more_is_left_out() -> None:
    async def scene() -> None:
        thread, go_on, asked = AskingThread("left out"), threading.Event(), list[str]()
        first = thread.ask(partial(go_on.wait, WAIT_S))
        second = thread.ask(partial(asked.append, "second"))
        third = thread.ask(partial(asked.append, "third"))
        first.cancel()  # it is asked already, and answered to nobody
        second.cancel()
        go_on.set()
        await third
        assert asked == ["third"]
        thread.close()

    asyncio.run(scene())


def test_what_is_asked_by_is_let_go_of_after_the_question_under_way_whoever_waits_for_it() -> None:
    async def scene() -> None:
        thread, go_on, done = AskingThread("lets go"), threading.Event(), list[str]()
        begun, let_go = asyncio.Event(), threading.Event()
        tell = asyncio.get_running_loop().call_soon_threadsafe

        def ask() -> None:
            tell(begun.set)
            go_on.wait(WAIT_S)
            done.append("answered")

        under_way, next_one = thread.ask(ask), thread.ask(partial(done.append, "next"))
        await begun.wait()
        under_way.cancel()
        next_one.cancel()
        thread.close(lambda: (done.append("let go"), let_go.set()))
        assert done == []
        go_on.set()
        assert await asyncio.to_thread(let_go.wait, WAIT_S)
        assert done == ["answered", "let go"]
        thread.close(partial(done.append, "there is no thread"))
        assert done[2:] == ["there is no thread"]

    asyncio.run(scene())


_ASKS_THE_SILENT = """
import asyncio, threading
from lakemq.gateway.fleet.asking_thread import AskingThread

async def main():
    begun = asyncio.Event()
    tell = asyncio.get_running_loop().call_soon_threadsafe
    asked = AskingThread("silent").ask(lambda: (tell(begun.set), threading.Event().wait()))
    await begun.wait()

asyncio.run(main())
print("ended")
"""


def test_the_end_of_the_process_waits_for_no_answer() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ASKS_THE_SILENT], capture_output=True, text=True, timeout=2 * WAIT_S, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
