"""What a route needs of who asks, as data: `routes.py` says it of each, `gateway/access/` holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakemq.model.access import Action, Kind, Need, Resource, need_of_topic


class Right(NamedTuple):
    """One of the actions on a resource: of that kind, and of the name that stands in the field `of` of the path or the
    query; without `of`, on all of the kind. `optional`: nothing is needed where the query lacks the field. `guarded`:
    it is needed also where nobody has to say who he is, as it can destroy or forge."""

    actions: tuple[Action, ...]
    kind: Kind
    of: str = ""
    guarded: bool = False
    optional: bool = False

    def need(self, fields: Mapping[str, str]) -> Need | None:
        """What it comes to for a request; None: nothing."""
        name = fields.get(self.of) if self.of else None
        if name is None:
            return None if self.of else Need(self.actions, Resource(self.kind), self.guarded)
        if self.kind is Kind.TOPIC:
            need = need_of_topic(self.actions, name)
            return need._replace(guarded=need.guarded or self.guarded)
        return Need(self.actions, Resource(self.kind, name), self.guarded)


class Rights(NamedTuple):
    """All that a route needs. `public`: it is for everybody, whoever that is; else for users that are known, who have
    all of `each`. `by_handler`: what the handler looks at beside that, as it stands in the body, or is found by an id;
    empty: nothing."""

    each: tuple[Right, ...] = ()
    public: bool = False
    by_handler: str = ""

    @property
    def guarded(self) -> bool:
        """Whether nobody may without saying who he is."""
        return any(right.guarded for right in self.each)


PUBLIC = Rights(public=True)
"""For everybody: it says nothing of what is stored."""


def known(by_handler: str = "") -> Rights:
    """Of any user who is known."""
    return Rights(by_handler=by_handler)


def topic(*actions: Action, by_handler: str = "") -> Rights:
    """On the topic that the path, or the query, names."""
    return Rights((Right(actions, Kind.TOPIC, "topic"),), by_handler=by_handler)


def group(*actions: Action, by_handler: str = "") -> Rights:
    """On the group that the path names."""
    return Rights((Right(actions, Kind.GROUP, "group"),), by_handler=by_handler)


def every(kind: Kind, *actions: Action, by_handler: str = "") -> Rights:
    """On all of a kind."""
    return Rights((Right(actions, kind),), by_handler=by_handler)


def sink(*actions: Action) -> Rights:
    """On the sink that the path names, always: its batches can stand in for anybody's messages."""
    return Rights((Right(actions, Kind.SINK, "sink", guarded=True),))


def sinks(*actions: Action) -> Rights:
    """On all sinks, always."""
    return Rights((Right(actions, Kind.SINK, guarded=True),))


def cluster(*actions: Action) -> Rights:
    """On the cluster, where it may be asked for by everybody as long as nobody has to say who he is."""
    return Rights((Right(actions, Kind.CLUSTER),))


def guarded(*actions: Action, by_handler: str = "") -> Rights:
    """On the cluster, always. Without an action: for super users alone."""
    return Rights((Right(actions, Kind.CLUSTER, guarded=True),), by_handler=by_handler)


def also(rights: Rights, *more: Right) -> Rights:
    """Those, and more."""
    return rights._replace(each=(*rights.each, *more))
