"""Names: which are well formed; of topics, whose they are, and who may write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from lakemq.model.errors import InvalidRequest, InvalidTopic, ReadOnlyTopic

SYSTEM_PREFIXES = ("%", "RMQ_SYS_")
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TOPIC = "RMQ_SYS_TRANS_CHECK_MAX_TIME"
NACK_TOPIC = "RMQ_SYS_NACK_TOPIC"
DECISION_TOPIC = "RMQ_SYS_DECISION_TOPIC"
REDRIVE_TOPIC = "RMQ_SYS_REDRIVE_TOPIC"
DISCARD_TOPIC = "RMQ_SYS_DISCARD_TOPIC"
RECEIVE_TOPIC = "RMQ_SYS_RECEIVE_TOPIC"
ACK_TOPIC = "RMQ_SYS_ACK_TOPIC"
GROUP_TOPIC = "RMQ_SYS_GROUP_TOPIC"
REPLY_TOPIC = "RMQ_SYS_REPLY_TOPIC"
SINK_TOPIC = "RMQ_SYS_SINK_TOPIC"
ERASURE_TOPIC = "RMQ_SYS_ERASURE_TOPIC"
ACCESS_TOPIC = "RMQ_SYS_ACCESS_TOPIC"
AUDIT_TOPIC = "RMQ_SYS_AUDIT_TOPIC"
MISREAD_TOPICS = (DISCARD_TOPIC,)
"""Those whose records, all in queue 0, say something that a lakemq of before doesn't know: it would take them for
messages that say nothing."""

ADDRESS_MAX = 300
"""Characters of an address that an answer says."""

_CLIENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,127}\Z")
_SYSTEM_NAME = re.compile(r"(%RETRY%|%DLQ%)?[A-Za-z0-9_-]{1,127}\Z")


def is_system(topic: str) -> bool:
    """Whether the topic is the system's: clients never write it."""
    return topic.startswith(SYSTEM_PREFIXES) or topic == SCHEDULE_TOPIC


def check_readable(topic: str) -> str:
    """Return `topic` if a client may name it to read; raises `InvalidTopic`."""
    if not _SYSTEM_NAME.match(topic):
        raise InvalidTopic(f"topic {topic[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return topic


def check_writable(topic: str) -> str:
    """Return `topic` if a client may write it; raises `InvalidTopic` or `ReadOnlyTopic`."""
    if is_system(topic):
        raise ReadOnlyTopic(f"topic {topic[:200]!r} is the system's; clients can't write it")
    if not _CLIENT_NAME.match(topic):
        raise InvalidTopic(f"topic {topic[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return topic


def check_group(group: str) -> str:
    """Return `group` if it can name a consumer or producer group; raises `InvalidRequest`."""
    if not _CLIENT_NAME.match(group):
        raise InvalidRequest(f"group {group[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return group


def check_address(address: str) -> str:
    """Return `address` if a gateway can be asked there; scheme and host are in lower case, as any other means the same.
    Raises `InvalidRequest`."""
    parts = urlsplit("")
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:  # a port that is none, half an IPv6, a name with an empty part or one that is too long
        good = False
    if not good or any(each in "?#" or each <= " " or each == "\x7f" for each in address):
        raise InvalidRequest(f"{address[:200]!r} is no address like http://127.0.0.1:8080")
    who, at, host = parts.netloc.rpartition("@")
    # Not of other scripts, where more than case may change, and not the names of interfaces of IPv6 addresses.
    host = host.lower() if host.isascii() and "%" not in host else host
    return f"{parts.scheme}://{who}{at}{host}{parts.path}"


def to_url(address: str) -> str:
    """The URL of an address that is one already, or `host:port`, without a slash at its end; raises
    `InvalidRequest`."""
    return check_address(address if "://" in address else f"http://{address}").rstrip("/")


def leader_address(said: object) -> str:
    """Where an answer says that a broker is, or is led from, without a slash at its end; empty for what can't be that.
    It comes from the network: it names a gateway, and neither who asks there nor with which password."""
    if not isinstance(said, str) or len(said) > ADDRESS_MAX:
        return ""
    try:
        address = check_address(said).rstrip("/")
    except InvalidRequest:
        return ""
    return "" if "@" in urlsplit(address).netloc else address


def speaks_tls(address: str) -> bool:
    """Whether an address is asked by https; schemes are the same in any case."""
    return address[:6].lower() == "https:"


def keeps_tls(asked: str, named: str) -> bool:
    """Whether who asks by one address may be sent by it to another: never from https to http. Whoever is asked by https
    is trusted with tokens and messages, and on the way to the other anybody could read them."""
    return speaks_tls(named) or not speaks_tls(asked)


def may_follow(address: str, leader: str) -> bool:
    """Whether who asked at an address goes where its answer says that the leader is: elsewhere, and as `keeps_tls`
    allows."""
    return leader not in ("", address) and keeps_tls(address, leader)


def why_not_asked(servers: Iterable[str], address: str) -> str:
    """Why a broker isn't asked at an address that it has registered at these name servers; empty: it may be. One that
    is asked by https is enough, as it isn't known which of them will answer: anybody may register there."""
    server = next((each for each in servers if not keeps_tls(each, address)), None)
    if server is None:
        return ""
    return f"a broker is not asked at {address[:ADDRESS_MAX]}: that is without TLS, and name servers are asked by https"


def retry_topic(group: str) -> str:
    """The topic of the messages that the group failed on and gets again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of the messages that the group failed on for good."""
    return DEAD_LETTER_PREFIX + group
