"""A thread that asks, for who can't wait for answers on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Question(NamedTuple, Generic[T]):
    function: Callable[[], T]
    future: asyncio.Future[T]


def _nothing() -> None:
    """Nothing is to be let go of."""


class AskingThread:
    """One, kept from the first question on until `close`. The process's end doesn't wait for it: whom it asks may be
    silent for long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._questions: SimpleQueue[_Question[object] | Callable[[], object]] | None = None

    def ask(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """What it returns, or raises. One follows the other, and one that nobody waits for any more is left out.
        Raises `RuntimeError` or `MemoryError` where there can't be a thread; the next one tries again."""
        if self._questions is None:
            questions = SimpleQueue[_Question[object] | Callable[[], object]]()
            threading.Thread(target=_answer_all, args=(questions,), name=self._name, daemon=True).start()
            self._questions = questions
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._questions.put(_Question(function, future))  # pyright: ignore[reportArgumentType]  of whatever type
        return future

    def close(self, let_go: Callable[[], object] = _nothing) -> None:
        """Let it end, once the question under way is answered. Then it lets go of what it asked by: while an answer is
        on its way the connection is in nobody's hands but the thread's."""
        questions, self._questions = self._questions, None
        if questions is None:
            let_go()
        else:
            questions.put(let_go)


def _answer_all(questions: SimpleQueue[_Question[object] | Callable[[], object]]) -> None:
    while isinstance(question := questions.get(), _Question):
        if not question.future.done():
            _answer(*question)
        del question  # an answer may be large, and the next question far away
    let_go = question
    let_go()


def _answer(function: Callable[[], T], future: asyncio.Future[T]) -> None:
    result, error = None, None
    try:
        result = function()
    except BaseException as raised:  # noqa: BLE001  whoever waits is told
        error = raised
    with suppress(RuntimeError):  # the loop has been closed meanwhile
        future.get_loop().call_soon_threadsafe(_tell, future, result, error)
    del error  # it holds this frame, with the result


def _tell(future: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)  # pyright: ignore[reportArgumentType]  it is one, as there is no error
    else:
        future.set_exception(error)
