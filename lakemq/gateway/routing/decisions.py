"""Decisions of the routing queries, as they are posted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor
from lakemq.gateway.receipts.run_out import RunOut
from lakemq.gateway.routing.deliveries import Deliveries
from lakemq.gateway.routing.nacks import Nacks
from lakemq.gateway.routing.transactions import Transactions
from lakemq.model.errors import InvalidRequest, LogReplaced
from lakemq.model.names import DECISION_TOPIC
from lakemq.model.retry import RetryDecision
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.decision_record import Decision, pack_decisions

T = TypeVar("T")

TRANSACTION_ACTIONS = ("commit", "rollback", "check", "give_up")
RETRY_ACTIONS = ("retry", "dead_letter")
NOW = 0
"""The due time of a decision that has none."""


class Posted(NamedTuple):
    """One decision. `due_ms` None: now."""

    cause: int
    action: str
    due_ms: int | None


class Decisions:
    """Takes decisions: what is due is carried out, what is not yet is written down and held."""

    def __init__(
        self,
        executor: Executor,
        deliveries: Deliveries,
        transactions: Transactions,
        nacks: Nacks,
        run_out: RunOut,
    ) -> None:
        self._executor = executor
        self._deliveries = deliveries
        self._transactions = transactions
        self._nacks = nacks
        self._run_out = run_out

    def check_log(self, log_id: str, epoch: int) -> None:
        """Raises `LogReplaced` for decisions that were made of another log, or of an epoch before this one's:
        their causes may be other messages here, or lost."""
        log = self._executor.log.identity
        if (log_id, epoch) != (log.log_id, log.now.epoch):
            raise LogReplaced(
                f"the decisions were made for log {log_id} in epoch {epoch}, and this is {log.log_id} in epoch "
                f"{log.now.epoch}: none is carried out. `GET /v1/routing` says from where to decide again"
            )

    async def take(self, posted: Sequence[Posted]) -> int:
        """Carry out or write down; returns how many were news. Who posts is told when all is confirmed, also what is
        no news: it may have been carried out just now, and who posts forgets it then.

        Raises `InvalidRequest`, `StoreUnwritable`, `LogDamaged`.
        """
        for action in {each.action for each in posted}:
            if action not in ("deliver", *RETRY_ACTIONS, *TRANSACTION_ACTIONS):
                raise InvalidRequest(f"unknown action {action[:100]!r}")
        accepted = await self._deliver([each for each in posted if each.action == "deliver"])
        transactions = {each.cause: each.action for each in posted if each.action in TRANSACTION_ACTIONS}
        for some in _chunks(list(transactions.items())):
            accepted += await self._transactions.decide(dict(some))
        retries = [each for each in posted if each.action in RETRY_ACTIONS]
        run_out = {each.cause: each.action for each in retries if each.cause in self._executor.state.receipts.out}
        for some in _chunks(list(run_out.items())):
            accepted += await self._run_out.decide(dict(some))
        nacks = {each.cause: _retry_of(each) for each in retries if each.cause not in run_out}
        for some in _chunks(list(nacks.items())):
            accepted += await self._nacks.decide(dict(some))
        return accepted

    async def _deliver(self, posted: Sequence[Posted]) -> int:
        state = self._executor.state
        await self._executor.settled([each.cause for each in posted])
        now = self._executor.log.now_ms()
        dues = {each.cause: each.due_ms or NOW for each in posted if each.cause in state.delays}
        accepted = 0
        for causes in _chunks([cause for cause, due in dues.items() if due <= now]):
            accepted += await self._deliveries.deliver(causes)
        later = [Decision(cause, due) for cause, due in dues.items() if due > now and cause not in state.decided]
        if later:
            queue = (await self._executor.ensure_topic(DECISION_TOPIC)).queues[0]
            record = make_row(body=pack_decisions(later), tag="deliver")
            await self._executor.execute([(None, record, queue)])
        return accepted + len(later)


def _chunks(items: list[T]) -> list[list[T]]:
    return [items[begin : begin + AT_ONCE_MAX] for begin in range(0, len(items), AT_ONCE_MAX)]


def _retry_of(posted: Posted) -> RetryDecision:
    if posted.action == "dead_letter":
        return RetryDecision("dead_letter", None)
    if posted.due_ms is None:
        raise InvalidRequest("a retry needs due_ms")
    return RetryDecision("retry", posted.due_ms)
