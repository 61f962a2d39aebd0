"""The other processes that make a fleet with this one, and how it is known who leads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from lakemq.settings.section import Options, Section, check_url, split_list

BUCKETS = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""How the addresses of buckets begin."""
ETCD_MEMBERS_MAX = 15


class Fleet(Section):
    """The other processes of the fleet. `nameservers`: addresses such as http://10.0.0.1:9876, separated by commas;
    the broker registers with all of them, with the first token of `nameserver_token_file` that they accept, if they
    require one. `primary`: the address of a follower's primary; empty: the name servers know it.

    `leader`: how the leader is determined (docs/fleet.md, "Who leads"). `static`: by `broker.replica`, permanently.
    `etcd`: `store` has the addresses of its members, separated by commas. `object-store`: `store` is
    s3://bucket/prefix, or a folder that all replicas share, file:///srv/shared; `store_options` are the bucket's
    options, as obstore names them, unless the environment sets them. `lease_ms`: how long a silent leader still
    leads, and how long to wait for the store.
    """

    nameservers: tuple[str, ...] = ()
    nameserver_token_file: Path | None = None
    primary: str = ""
    leader: Literal["static", "etcd", "object-store"] = "static"
    store: str = ""
    store_options: Options = Field(default_factory=dict, repr=False)
    lease_ms: int = Field(default=3_000, ge=500, le=60_000)

    @field_validator("primary")
    @classmethod
    def _primary(cls, value: str) -> str:
        return check_url(value) if value else value

    @field_validator("nameservers", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return split_list(value)

    @field_validator("nameservers")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(check_url(each) for each in value))

    @property
    def etcd_addresses(self) -> tuple[str, ...]:
        """Those in `store`."""
        return tuple(dict.fromkeys(check_url(each.strip()) for each in self.store.split(",") if each.strip()))

    @model_validator(mode="after")
    def _store_fits(self) -> Fleet:
        if self.leader == "static" and self.store:
            raise ValueError(
                "fleet.store is set, but fleet.leader is static and uses no store; set it to etcd or object-store"
            )
        if self.leader == "etcd":
            self._check_etcd()
        if self.leader == "object-store":
            self._check_objects()
        if self.store_options and (self.leader != "object-store" or self.store.startswith("file:")):
            raise ValueError("fleet.store_options are for a bucket, but fleet.store isn't one")
        return self

    def _check_etcd(self) -> None:
        try:
            addresses = self.etcd_addresses
        except ValueError:
            raise ValueError(
                "fleet.store needs the addresses of etcd's members, such as "
                "http://10.0.0.1:2379; one of them is not an address"
            ) from None
        if not 0 < len(addresses) <= ETCD_MEMBERS_MAX:
            raise ValueError(
                f"fleet.leader is etcd: fleet.store needs the addresses of its members, such as "
                f"http://10.0.0.1:2379,http://10.0.0.2:2379; it has {len(addresses)} of them"
            )

    def _check_objects(self) -> None:
        try:
            parts = urlsplit(self.store)
        except ValueError:  # half an IPv6
            parts = urlsplit("")
        is_bucket = parts.scheme in BUCKETS and parts.netloc
        is_folder = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/") and parts.path != "/"
        if not (is_bucket or is_folder) or parts.query or parts.fragment or parts.username:
            raise ValueError(
                "fleet.leader is object-store: fleet.store needs an address like s3://bucket/prefix or "
                "file:///srv/shared, without a user, a query or a fragment"
            )
