"""The Delta tables: where they are, and the query that writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from lakemq.objects.bucket import Access, check_installed
from lakemq.objects.path import ObjectPath, is_object
from lakemq.settings.section import HOUR_MS, MIB, Section, of_json

_BUCKET = re.compile(r"s3[an]?:/+(.+)")
"""A path of the command line has lost a slash."""
_OTHERS = re.compile(r"[a-z][a-z0-9+.-]*:/|s3[an]?:", re.IGNORECASE)
"""What is meant for a store, and would be a local folder's name."""


class LakeStorage(Section):
    """How the bucket of a lake in object storage is reached. Options that aren't set here come from AWS's names in the
    environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
    `AWS_ENDPOINT_URL`)."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = Field(default="", repr=False)
    secret_access_key: str = Field(default="", repr=False)
    session_token: str = Field(default="", repr=False)
    allow_http: bool = False

    @model_validator(mode="after")
    def _fits(self) -> LakeStorage:
        if bool(self.access_key_id) != bool(self.secret_access_key):
            raise ValueError("lake.storage has only one of access_key_id and secret_access_key: set both or none")
        if self.endpoint and not re.fullmatch(r"https?://[^/\s@]+/?", self.endpoint):
            raise ValueError("lake.storage.endpoint must look like https://s3.example:9000")
        if self.endpoint.startswith("http:") and not self.allow_http:
            raise ValueError("lake.storage.endpoint is without TLS: lake.storage.allow_http = true allows that")
        return self


def _folder(value: Any) -> Path:
    if not isinstance(value, str) and (is_object(value) or not isinstance(value, Path)):
        if is_object(value):
            return value
        raise ValueError("it is a folder, or s3://bucket/prefix")
    text = str(value)
    found = _BUCKET.fullmatch(text)
    if found is not None:
        return ObjectPath.parse(f"s3://{found[1]}", Access(), Path())
    if _OTHERS.match(text):
        raise ValueError("a lake is in a folder, or in s3://bucket/prefix")
    return Path(text)


def _state_folder() -> Path:
    """Where the user's programs keep what they can do without, wherever they are started. Raises `ValueError`."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        own = state if state.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        own = Path()
    if not own.is_absolute():
        raise ValueError("a lake in object storage needs lake.work_dir, as this user has no home")
    return own / "lakemq" / "lake-work"


def _empty_is_none(value: Any) -> Any:
    return None if value == "" else value


class Lake(Section):
    """The Delta tables and the query that writes them.

    `dir`: a folder, or s3://bucket/prefix (docs/lake.md, "In object storage"), with the connection options in
    `storage`; `work_dir` is then the local folder of locks, checkpoints and temporary files: an absolute path.
    `cache_bytes`: how much of the tables the gateway keeps in memory to serve what has left the log. `verify`:
    before anything leaves the log, the gateway checks `dir` itself; false: it trusts what it is told over HTTP, for
    a lake that it can't see, such as one in Databricks. `shared`: jobs on other machines may write `dir` too, so
    jobs announce themselves in the tables when they start (docs/fleet.md, "One driver writes"); a bucket is always
    shared. `may_lack_older`: a new lake may begin without the messages that a log has deleted; set it for one
    start only (docs/lake.md, "Each message once"). `merge_files`: this many files of a table are merged into one, and
    this many of those again, up to `file_bytes_max`.
    """

    dir: Annotated[Path, PlainValidator(_folder), PlainSerializer(str)] = Path("lake")
    storage: Annotated[LakeStorage, BeforeValidator(of_json)] = Field(default_factory=LakeStorage)
    work_dir: Annotated[Path | None, BeforeValidator(_empty_is_none)] = None
    verify: bool = True
    shared: bool = False
    may_lack_older: bool = False
    cache_bytes: int = Field(default=128 * MIB, ge=MIB)
    trigger_ms: int = Field(default=4_000, ge=0)
    """The shortest time between two batches that copy the log into the tables."""
    messages_per_trigger_max: int = Field(default=1_000_000, ge=1)
    """The most messages in a batch."""
    partitions: int = Field(default=2, ge=1, le=1024)
    """How many tasks read a batch."""
    scheduled_retention_ms: int = Field(default=72 * HOUR_MS, ge=0)
    """How long the table `scheduled` keeps messages that have ended."""
    merge_files: int = Field(default=12, ge=2, le=64)
    file_bytes_max: int = Field(default=1024 * MIB, ge=MIB)

    @model_validator(mode="after")
    def _reached(self) -> Lake:
        """The path knows how it is reached, as it goes where the settings don't: into tasks of Spark."""
        found = self.dir
        if is_object(found):
            check_installed()
            access = Access(**self.storage.model_dump()).completed(os.environ)
            if access.endpoint.startswith("http:") and not access.allow_http:
                raise ValueError("the bucket's endpoint is without TLS: lake.storage.allow_http = true allows that")
            named = ObjectPath.parse(str(found), access, Path())
            own = self.work_dir or _state_folder()
            if not own.is_absolute():  # else where it is started from would make two folders, and locks, of one lake
                raise ValueError("lake.work_dir of a lake in object storage must be an absolute path")
            work_dir = own / named.bucket.identity() / found.bucket.name / found.key
            object.__setattr__(self, "dir", ObjectPath(named.bucket, named.key, work_dir))
        return self
