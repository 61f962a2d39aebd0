"""Routes of users: who may do what. All are for super users alone."""

from __future__ import annotations

from lakemq.contract.right import guarded
from lakemq.contract.route import Answered, Reads, Route

JSON, CONFIRMED = Reads.JSON, Answered.CONFIRMED

USERS = Route("GET", "/v1/users", "access", "All users", rights=guarded())
USER = Route("GET", "/v1/users/{user}", "access", "A user with all it has, but no secret", rights=guarded())
PUT_USER = Route(
    "PUT",
    "/v1/users/{user}",
    "access",
    "Create or change a user",
    reads=JSON,
    differs=CONFIRMED,
    rights=guarded(),
    audited=True,
)
DELETE_USER = Route(
    "DELETE",
    "/v1/users/{user}",
    "access",
    "Delete a user with its policies and tokens",
    differs=CONFIRMED,
    rights=guarded(),
    audited=True,
)
TOKENS = Route("GET", "/v1/users/{user}/tokens", "access", "A user's tokens, without secrets", rights=guarded())
ADD_TOKEN = Route(
    "POST",
    "/v1/users/{user}/tokens",
    "access",
    "Create a token for a user; it is shown only once",
    reads=JSON,
    differs=CONFIRMED,
    rights=guarded(),
    audited=True,
)
DELETE_TOKEN = Route(
    "DELETE",
    "/v1/users/{user}/tokens/{token_id}",
    "access",
    "Delete a token",
    differs=CONFIRMED,
    rights=guarded(),
    audited=True,
)
POLICIES = Route("GET", "/v1/users/{user}/policies", "access", "A user's policies", rights=guarded())
PUT_POLICIES = Route(
    "PUT",
    "/v1/users/{user}/policies",
    "access",
    "Replace all policies of a user",
    reads=JSON,
    differs=CONFIRMED,
    rights=guarded(),
    audited=True,
)
ACCESS = Route(
    "POST",
    "/v1/access",
    "access",
    "Whether a user may do something, and which policy decides",
    reads=JSON,
    of_replica=True,
    differs=Answered.SHOWN,
    rights=guarded(),
)

ALL: tuple[Route, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Route))
"""Every route above, in that order."""
