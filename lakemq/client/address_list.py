"""Brokers by their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakemq.client.broker_queues import BrokerQueues
from lakemq.client.errors import Unreachable
from lakemq.client.replicas import FIRST_TIMEOUT_S, Said, ask_all, place_of, who_leads
from lakemq.client.route_source import BrokerAddress, Connect, TopicRoute
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.primary import PRIMARY


class AddressList:
    """Routes by asking each broker of a list. Addresses that say one name are one broker's replicas."""

    def __init__(self, addresses: Sequence[str], connect: Connect) -> None:
        self._addresses = addresses
        self._connect = connect
        self._said: dict[str, Said] = {}
        self._places: dict[str, BrokerAddress] = {}
        self._queues = BrokerQueues(connect)

    async def brokers(self) -> Sequence[BrokerAddress]:
        """Those that have answered once. A broker's name doesn't change, so a broker with a single address isn't asked
        again; replicas are asked which of them leads. Raises the error if none answers, and `InvalidRequest` if two
        brokers have the same name."""
        answers = await self._ask(filter(self._is_open, self._addresses))
        silent = [each for each, said in answers.items() if isinstance(said, Unreachable) and said.retryable]
        if silent and not self._said:
            answers |= await self._ask(silent, FIRST_TIMEOUT_S)
        if not self._said:
            raise next(answer for answer in answers.values() if isinstance(answer, LakemqError))
        return [await self._place(name, addresses, answers) for name, addresses in self._by_name().items()]

    async def _ask(self, addresses: Iterable[str], timeout_s: float | None = None) -> dict[str, Said | LakemqError]:
        answers = await ask_all(self._connect, addresses, timeout_s)
        self._said |= {address: said for address, said in answers.items() if isinstance(said, Said)}
        return answers

    async def route(self, topic: str) -> TopicRoute:
        """The queues of all brokers that have the topic."""
        return await self._queues.route(topic, await self.brokers())

    async def look(self, broker: BrokerAddress) -> BrokerAddress:
        """As its replicas say; of a broker with one address nobody says more."""
        if not broker.followers:
            return broker
        found = self._places[broker.name] = await who_leads(self._connect, broker)
        return found

    def learn(self, route: TopicRoute) -> None:
        """Brokers are asked anyway, and know what they have."""

    async def close(self) -> None:
        """Nothing runs here."""

    def _is_open(self, address: str) -> bool:
        """Whether it is worth asking what is there."""
        said = self._said.get(address)
        return said is None or said.role != PRIMARY or len(self._by_name()[said.name]) > 1

    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for address in self._addresses:
            if address in self._said:
                by_name.setdefault(self._said[address].name, []).append(address)
        return by_name

    async def _place(
        self, name: str, addresses: Sequence[str], answers: Mapping[str, Said | LakemqError]
    ) -> BrokerAddress:
        said = [self._said[address] for address in addresses]
        if len(said) == 1 and said[0].role == PRIMARY:
            return BrokerAddress(name, addresses[0])
        _check_one_broker(addresses, said)
        before = self._places.get(name, BrokerAddress(name, ""))
        before = before._replace(followers=tuple(dict.fromkeys((*before.followers, *addresses))))
        found = place_of(before, answers)
        if not found.address:
            found = await who_leads(self._connect, before)  # one that isn't in the list, maybe
        self._places[name] = found
        return found


def _check_one_broker(addresses: Iterable[str], said: Iterable[Said]) -> None:
    """Raises `InvalidRequest` for what are no replicas of one broker: each has a number of its own."""
    leading: dict[int, tuple[str, str]] = {}
    for address, each in zip(addresses, said, strict=True):
        if each.role != PRIMARY:
            continue
        other, log_id = leading.setdefault(each.replica, (address, each.log_id))
        if log_id != each.log_id:
            raise InvalidRequest(
                f"{other} and {address} are both replica {each.replica} of broker {each.name!r}, with different logs:"
                " give each broker its own broker.name, or each replica its own broker.replica"
            )
