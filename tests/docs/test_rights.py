from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from lakemq import contract
from lakemq.contract import routes
from lakemq.contract.route import Route
from lakemq.model.access import User, parse_policy
from tests.docs.rights import OF_GATEWAY, OF_JOBS, OF_NAME_SERVER, PART, tables


def test_the_tables_of_rights_are_those_of_the_routes() -> None:
    assert PART.written() == tables(), "python -m tests.docs.rights writes them anew"


def test_every_route_of_the_contract_is_in_one_of_the_tables() -> None:
    """So what is asked by all who may not (`test_every_route.py` of the gateway, the jobs and the name server) is all
    that there is."""
    modules = [import_module(f"{contract.__name__}.{each.name}") for each in iter_modules(contract.__path__)]
    values = [value for module in modules for value in vars(module).values()]
    found = {value for value in values if isinstance(value, Route)}
    found |= {each for value in values if isinstance(value, tuple) for each in value if isinstance(each, Route)}
    named = [*OF_GATEWAY, *OF_JOBS, *OF_NAME_SERVER]
    assert len(found) > 80
    assert len(named) == len(set(named))
    assert set(named) == found


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
