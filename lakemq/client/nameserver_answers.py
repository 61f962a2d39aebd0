"""What name servers answer, read: whatever it is, it is a value of ours or a `LakemqError`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.client.errors import Untrusted
from lakemq.client.route_source import READ_WRITE, BrokerAddress
from lakemq.model.errors import LakemqError
from lakemq.model.names import leader_address
from lakemq.model.primary import Claim, primary_of
from lakemq.wire.left_out import why_left_out

QUEUES_MAX = 65_536
"""Of one topic at one broker: an answer that names more is none of a name server's."""
PERMISSIONS = (READ_WRITE, "r", "w", "")
"""The last one: the topic allows what its broker doesn't."""
VERSION_MAX = 256
"""Characters: it goes back in the next question's head."""


class NamedTopic(NamedTuple):
    """A topic at one broker."""

    queues: int
    permission: str


class NamedRoutes(NamedTuple):
    """Brokers by their names, and of each topic the brokers that have it."""

    version: str
    brokers: dict[str, BrokerAddress]
    topics: dict[str, dict[str, NamedTopic]]


def read_routes(answer: Any, wanted: Container[str], servers: Sequence[str] = ()) -> NamedRoutes:
    """An answer of routes, of the topics that are wanted. Brokers that `servers`, who are asked, may not send anybody
    to are left out. Raises `LakemqError` for what is none, and `Untrusted` where no other broker is named."""
    try:
        brokers = {broker.name: broker for broker in _read_brokers(answer["brokers"], servers)}
        topics: dict[str, dict[str, NamedTopic]] = {}
        for entry in answer["topics"]:
            if entry["topic"] in wanted and entry["broker"] in brokers:
                topics.setdefault(entry["topic"], {})[entry["broker"]] = _read_topic(entry)
        return NamedRoutes(_read_version(answer["version"]), brokers, topics)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_answer(error) from None


def read_cluster(answer: Any, servers: Sequence[str] = ()) -> list[BrokerAddress]:
    """An answer of all brokers; as `read_routes`."""
    try:
        return _read_brokers(answer["brokers"], servers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_answer(error) from None


def _read_brokers(entries: Iterable[Mapping[str, Any]], servers: Sequence[str]) -> list[BrokerAddress]:
    found: list[BrokerAddress] = []
    why = ""
    for entry in entries:
        replicas = [{**each, "address": leader_address(each["address"])} for each in entry["replicas"]]
        addresses = [each for each in replicas if each["address"]]
        refused = [why_left_out(servers, str(entry["broker"]), each["address"]) for each in addresses]
        asked = [each for each, refusal in zip(addresses, refused, strict=True) if not refusal]
        if addresses and not asked:
            why = refused[0]
        else:
            found.append(_read_broker(entry, asked))
    if why and not found:
        raise Untrusted(why)
    return found


def _read_broker(entry: Mapping[str, Any], reachable: Sequence[Mapping[str, Any]]) -> BrokerAddress:
    primary = primary_of(reachable, _claim_of)
    followers = tuple(str(each["address"]) for each in reachable if each is not primary)
    name = entry["broker"]
    if not isinstance(name, str):
        raise TypeError(f"a broker is called {name!r}")
    if primary is None:
        return BrokerAddress(name, "", followers)
    permission = primary.get("permission")  # which routes don't say
    return BrokerAddress(
        name, str(primary["address"]), followers, permission if permission in PERMISSIONS else READ_WRITE
    )


def _claim_of(replica: Mapping[str, Any]) -> Claim:
    return Claim(int(replica["replica"]), replica["role"], int(replica["epoch"]))


def _read_version(version: object) -> str:
    if not isinstance(version, str) or len(version) > VERSION_MAX:
        raise ValueError("a version is a short text")
    return version


def _read_topic(entry: Mapping[str, Any]) -> NamedTopic:
    queues, permission = entry["queues"], entry["permission"]
    if type(queues) is not int or not 0 <= queues <= QUEUES_MAX or permission not in PERMISSIONS:
        raise ValueError(f"{queues!r} queues of permission {permission!r}")
    return NamedTopic(queues, permission)


def _no_answer(error: Exception) -> LakemqError:
    return LakemqError(f"this is no name server's answer: {error!r}")
