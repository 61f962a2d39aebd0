"""What it costs to know who asks: `python -m benchmarks.access`.

Single 1 KiB raw POSTs on 64 kept connections, as in `benchmarks.single`, by turns to a broker that asks nobody, and to
one that wants a token for each request, of a user with a hundred policies. Counted is the broker's processor time a
message.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from benchmarks.broker import gateway, scratch
from benchmarks.options import sizes
from benchmarks.turns import TOPIC, Broker, compare
from benchmarks.wire import ask

POLICIES = 100


def _user(url: str, data: Path) -> str:
    """Make a user that may produce; its token."""
    admin = (data / "admin.token").read_text("ascii").strip()
    policies: list[dict[str, Any]] = [
        {"resource": f"Topic:other-{number}*", "actions": ["Pub", "Sub"]} for number in range(POLICIES - 1)
    ]
    policies.append({"resource": f"Topic:{TOPIC}", "actions": ["Pub"]})
    ask(url, "PUT", f"/v1/topics/{TOPIC}", {"queues": 4}, admin)
    ask(url, "PUT", "/v1/users/producer", {}, admin)
    ask(url, "PUT", "/v1/users/producer/policies", {"policies": policies}, admin)
    return ask(url, "POST", "/v1/users/producer/tokens", {}, admin)["token"]


def main() -> None:
    chosen = sizes(__doc__, seconds=(8, 1), rounds=(6, 1), connections=(64, 8))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        open_ = stack.enter_context(gateway(folder / "open"))
        ask(open_.url, "PUT", f"/v1/topics/{TOPIC}", {"queues": 4})
        asking = stack.enter_context(gateway(folder / "asking", auth__required="true"))
        token = _user(asking.url, folder / "asking")
        compare("access", Broker("without", open_), Broker("token", asking, token), chosen)


if __name__ == "__main__":
    main()
