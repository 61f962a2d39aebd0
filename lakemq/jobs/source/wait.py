"""How a stream waits for news: long polls of all its brokers, and the time for what waits."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from lakemq.jobs.log_client import LogClient, LogEnd
from lakemq.jobs.source.options import SourceOptions


class EndWatch:
    """Asks brokers where their logs end, all at once, and has an answer as soon as one has news.

    A broker that has none holds its request. It is not asked again before it has answered, so
    an answer belongs to the position that it was asked with. Not for several threads at once.
    """

    def __init__(self, options: SourceOptions, addresses: Mapping[str, str]) -> None:
        self._options = options
        self._clients = {
            name: LogClient(address, options.retry_s, token=options.token) for name, address in addresses.items()
        }
        self._threads = ThreadPoolExecutor(len(self._clients)) if len(self._clients) > 1 else None
        self._asked: dict[str, Future[LogEnd]] = {}
        self._timers: dict[str, int] = {}

    def ends(self, positions: Mapping[str, int], messages_max: int | None, wait_ms: int) -> dict[str, LogEnd]:
        """The ends of one broker at least, within `wait_ms`; with `timer`, sooner when it is over."""
        return self._ask(positions, messages_max, wait_ms, self._options.timer)

    def ends_without_timer(
        self, positions: Mapping[str, int], messages_max: int | None, wait_ms: int
    ) -> dict[str, LogEnd]:
        """The same, but held also while the timer is over."""
        return self._ask(positions, messages_max, wait_ms, None)

    def is_over(self, clock_ms: int) -> bool:
        """Whether at that time something waits for a batch, as the brokers said last."""
        return any(timer_ms <= clock_ms for timer_ms in self._timers.values())

    def close(self) -> None:
        """Ends the connections; requests that are held end by themselves."""
        if self._threads is None:
            for client in self._clients.values():
                client.close()
        else:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(
        self, positions: Mapping[str, int], messages_max: int | None, wait_ms: int, timer: str | None
    ) -> dict[str, LogEnd]:
        def ask(name: str) -> LogEnd:
            subscription, position = self._options.subscription, positions.get(name)
            return self._clients[name].end(subscription, position, messages_max, wait_ms, timer)

        answers: dict[str, LogEnd] = {}
        if self._threads is None:
            answers = {name: ask(name) for name in self._clients}
        else:
            for name in self._clients:
                if name not in self._asked:
                    self._asked[name] = self._threads.submit(ask, name)
            done, _ = wait(self._asked.values(), return_when=FIRST_COMPLETED)
            for name in [name for name, future in self._asked.items() if future in done]:
                answers[name] = self._asked.pop(name).result()
        if timer is not None:
            for name, end in answers.items():
                self._note_timer(name, end.timer_ms)
        return answers

    def _note_timer(self, name: str, timer_ms: int | None) -> None:
        if timer_ms is None:
            self._timers.pop(name, None)
        else:
            self._timers[name] = timer_ms
