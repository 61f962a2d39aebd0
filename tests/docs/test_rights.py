from __future__ import annotations

import re
from pathlib import Path

from lakemq.contract import routes
from lakemq.model.access import User, parse_policy
from tests.docs.rights import PART, table


def test_the_table_of_rights_is_that_of_the_routes() -> None:
    assert PART.written() == table(), "python -m tests.docs.rights writes it anew"


def test_the_rights_that_jobs_elsewhere_are_given_are_enough() -> None:
    text = PART.file.read_text("utf-8")
    given = re.findall(r'^lakemq acl add jobs (\S+) "(\S+)"$', text, re.MULTILINE)
    policies = [parse_policy({"resource": resource, "actions": actions.split(",")}) for actions, resource in given]
    user = User("jobs", policies=tuple(policies))
    asked = {
        name
        for file in Path("lakemq/jobs").rglob("*.py")
        for name in re.findall(r"routes\.([A-Z_]+)", file.read_text())
    }
    assert len(asked) > 15
    for name in asked:
        route = getattr(routes, name)
        fields = dict.fromkeys([*route.within, *route.names], "RMQ_SYS_TOPICS")
        needs = [right.need(fields) for right in route.rights.each]
        assert all(user.decide(need, None).allowed for need in needs if need is not None), name
