"""Rows of a statement as a chart draws them: a series of numbers over the values along x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

SERIES_MAX = 12
"""More lines than that can't be told apart."""


class Split(NamedTuple):
    """`x`: each value once; `series`: for each label its numbers, None where it has none at that x."""

    x: list[Any]
    series: dict[str, list[Any]]


def split_by_label(x: Sequence[Any], labels: Sequence[str], numbers: Sequence[Any]) -> Split | None:
    """Rows such as (day, country, amount) as one series for each label, in the order of their first rows.

    None where that isn't what they are: no x comes twice, a label comes twice at one x, or there are more than
    `SERIES_MAX` labels.
    """
    places = {value: at for at, value in enumerate(dict.fromkeys(x))}
    names = list(dict.fromkeys(labels))
    if len(places) == len(x) or len(names) > SERIES_MAX:
        return None
    series: dict[str, list[Any]] = {name: [None] * len(places) for name in names}
    taken = set[tuple[int, str]]()
    for value, label, number in zip(x, labels, numbers, strict=True):
        place = places[value], label
        if place in taken:
            return None
        taken.add(place)
        series[label][place[0]] = number
    return Split(list(places), series)


def order_of(x: Sequence[Any]) -> list[int]:
    """The numbers of the rows in the order of x, those without a value last: lines go from left to right, whatever the
    statement's order is."""
    return sorted(range(len(x)), key=lambda at: (x[at] is None, x[at] if x[at] is not None else 0))
