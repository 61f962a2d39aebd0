from __future__ import annotations

import asyncio

import httpx

from lakemq.gateway.http.part_of_list import PartOfList
from tests.gateway.http_client import put_topic

NAMES = ["b-orders", "a", "Orders-2", "orders-1", "c"]


def part(**fields: str | int) -> tuple[list[str], str | None]:
    return asyncio.run(PartOfList(**fields).of(NAMES))  # pyright: ignore[reportArgumentType]


def test_without_anything_it_is_the_whole_list_in_order() -> None:
    assert part() == (sorted(NAMES), None)


def test_names_match_in_any_case_and_come_a_page_at_a_time() -> None:
    assert part(contains="ORDERS") == (["Orders-2", "b-orders", "orders-1"], None)
    assert part(prefix="orders") == (["Orders-2", "orders-1"], None)
    assert part(contains="orders", limit=2) == (["Orders-2", "b-orders"], "b-orders")
    assert part(contains="orders", limit=2, after="b-orders") == (["orders-1"], None)
    assert part(limit=5)[1] is None


def test_lists_have_pages_and_who_asks_for_none_gets_all(http: httpx.Client, topic: str) -> None:
    names = [f"{topic}-paged-{number}" for number in range(5)]
    for name in names:
        put_topic(http, name)
        offsets = {"offsets": [{"topic": name, "queue_id": 0, "offset": 0}]}
        http.put(f"/v1/groups/{name}/offsets", json=offsets).raise_for_status()
    for kind, field in (("topics", "topic"), ("groups", "group")):
        query = {"contains": f"{topic}-PAGED", "limit": 3}
        first = http.get(f"/v1/{kind}", params=query).json()
        assert ([each[field] for each in first[kind]], first["next_after"]) == (names[:3], names[2])
        second = http.get(f"/v1/{kind}", params=query | {"after": first["next_after"]}).json()
        assert ([each[field] for each in second[kind]], second["next_after"]) == (names[3:], None)
        assert set(http.get(f"/v1/{kind}").json()) == {kind}
        for wrong in ({"limit": "0"}, {"limit": "1001"}, {"contains": "x" * 201}):
            assert http.get(f"/v1/{kind}", params=wrong).status_code == 400
