"""Looking for messages: by the broker's index of keys, of one topic or of all, or queue by queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lakemq.cli.waiting import Waiting, find_waiting
from lakemq.model.all_topics import AllTopics, newest
from lakemq.model.errors import Forbidden, TopicNotFound

if TYPE_CHECKING:
    from lakemq.client import MessageView
    from lakemq.client.http import HttpClient

PULL_MAX = 1_000
BY_KEY_MAX = 1_000
"""So many messages the gateway's index answers at a time."""


class SearchQuery(NamedTuple):
    """What is looked for: the newest `count_max` messages stored from `begin_ms` on and before `end_ms`
    that have the key, one of the tags, and the properties that `sql` asks for."""

    key: str | None
    tags: str
    sql: str | None
    begin_ms: int | None
    end_ms: int | None
    count_max: int

    @property
    def filters(self) -> bool:
        """Whether the broker is to choose, beside by key and time."""
        return self.sql is not None or self.tags != "*"


class Found(NamedTuple):
    """Messages, newest first. `complete`: all was looked at, else there may be older ones. `waiting`: messages with the
    key that no group gets yet. `notes`: what was not searched."""

    messages: list[MessageView]
    complete: bool
    waiting: tuple[Waiting, ...] = ()
    notes: tuple[str, ...] = ()


def search(client: HttpClient, topic: str, wanted: SearchQuery) -> Found:
    """The messages that log and lake hold."""
    if wanted.key is not None:
        return _search_key(client, topic, wanted.key, wanted)
    found: list[MessageView] = []
    for queue in client.topic(topic)["queues"]:
        found += _search_queue(client, topic, queue["queue_id"], queue["max_offset"], wanted)
    found.sort(key=lambda message: message.position, reverse=True)
    return Found(found[: wanted.count_max], complete=True)


def search_by_key(client: HttpClient, topic: str | None, wanted: SearchQuery, instead: str) -> Found:
    """Messages with the key, of one topic or of all that the user may list and read; those that wait too, unless the
    search has a filter or a time. `instead`: what names a topic on the command line, for who may not list them. Raises
    `Forbidden`."""
    found = _search_topics(client, wanted, instead) if topic is None else search(client, topic, wanted)
    if wanted.key is None or wanted.filters or wanted.begin_ms is not None or wanted.end_ms is not None:
        return found
    waiting = find_waiting(client, topic, wanted.key)
    notes = () if waiting.complete else ("not all waiting messages were looked at: there are too many",)
    return found._replace(waiting=tuple(waiting.found), notes=(*found.notes, *notes))


def _search_topics(client: HttpClient, wanted: SearchQuery, instead: str) -> Found:
    all_topics = AllTopics(wanted.count_max, _stored_ms)
    for topic in _topics(client, instead):
        if all_topics.is_full:
            all_topics.stop(before=topic)
            break
        try:
            found = search(client, topic, wanted)
        except Forbidden:
            all_topics.refuse()
        except TopicNotFound:  # deleted meanwhile
            continue
        else:
            all_topics.take(found.messages, found.complete)
    return Found(all_topics.messages, all_topics.complete, notes=all_topics.notes("this user"))


def _topics(client: HttpClient, instead: str) -> Iterator[str]:
    after: str | None = None
    while True:
        try:
            page = client.topics_page(after)
        except Forbidden as error:
            hint = f"give a topic with {instead}, or ask an administrator for List on Topic:*"
            raise Forbidden(f"can't list the topics to search: {hint} ({error.detail})") from None
        yield from (each["topic"] for each in page["topics"])
        after = page["next_after"]
        if after is None:
            return


def _stored_ms(message: MessageView) -> int:
    return message.store_time_ms


def together(found: Mapping[str, Found], wanted: SearchQuery) -> Found:
    """What several brokers found: of all of it the newest."""
    messages = [message for each in found.values() for message in each.messages]
    return Found(
        newest(messages, wanted.count_max, _stored_ms) if len(found) > 1 else messages[: wanted.count_max],
        all(each.complete for each in found.values()),
        tuple(waiting for each in found.values() for waiting in each.waiting),
        tuple(dict.fromkeys(note for each in found.values() for note in each.notes)),
    )


def _search_key(client: HttpClient, topic: str, key: str, wanted: SearchQuery) -> Found:
    """Of those that the index names, the broker says by a pull which the filters choose."""
    if wanted.sql is not None:
        client.pull(topic, 0, 0, 1, sql=wanted.sql)  # what is wrong with it is said where there is no such key too
    found: list[MessageView] = []
    for page, complete in _pages(client, topic, key, wanted):
        for message in page:
            found += [message] if not wanted.filters or _is_chosen(client, message, wanted) else []
            if len(found) == wanted.count_max:
                return Found(found, complete=True)
        if not complete:
            return Found(found, complete=False)
    return Found(found, complete=True)


def _pages(client: HttpClient, topic: str, key: str, wanted: SearchQuery) -> Iterator[tuple[list[MessageView], bool]]:
    """What the index answers, a page at a time, and whether it looked at all that is asked for so far."""
    end_ms = None if wanted.end_ms is None else wanted.end_ms - 1
    page_max = BY_KEY_MAX if wanted.filters else min(wanted.count_max, BY_KEY_MAX)
    seen: set[int] = set()
    while True:
        page, complete = client.messages_by_key(topic, key, wanted.begin_ms, end_ms, page_max)
        new = [message for message in page if message.position not in seen]
        if complete and len(page) < page_max:
            yield new, True
            return
        if not new:  # more than a page in one millisecond, or more of the log than is looked through at a time
            yield [], False
            return
        yield new, True
        seen = {message.position for message in page}
        end_ms = page[-1].store_time_ms


def _is_chosen(client: HttpClient, message: MessageView, wanted: SearchQuery) -> bool:
    answer = client.pull(message.topic, message.queue_id, message.queue_offset, 1, 0, wanted.tags, wanted.sql)
    return any(each.queue_offset == message.queue_offset for each in answer.messages)


def _search_queue(client: HttpClient, topic: str, queue_id: int, end: int, wanted: SearchQuery) -> deque[MessageView]:
    offset = 0 if wanted.begin_ms is None else client.offset_at(topic, queue_id, wanted.begin_ms)
    if wanted.end_ms is not None:
        end = min(end, client.offset_at(topic, queue_id, wanted.end_ms))
    newest: deque[MessageView] = deque(maxlen=wanted.count_max)
    while offset < end:
        answer = client.pull(topic, queue_id, offset, min(PULL_MAX, end - offset), 0, wanted.tags, wanted.sql)
        newest += (message for message in answer.messages if message.queue_offset < end)
        if answer.next_offset <= offset:
            break
        offset = answer.next_offset
    return newest
