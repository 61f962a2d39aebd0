"""A Parquet file of one of the lake's tables: small row groups, as the gateway reads by them what has left the log;
checksums of pages, by which a start knows what a power cut has torn; statistics and an index of pages."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)
from __future__ import annotations

import logging
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakemq.objects.path import ObjectPath, is_object
from lakemq.storage.disk.privacy import DIRECTORY_MODE

GROUP_BYTES = 16 * 1024 * 1024
GROUP_ROWS = 128 * 1024
"""A row group of the file; as Spark is told to write them (`jobs.session`)."""

UPLOADS = "uploads"
_OWN = "lakemq-upload-"

logger = logging.getLogger(__name__)

_UNLIKE = frozenset({"body", "message_id", "transaction_id"})
"""Hardly ever there twice: a dictionary of them is work for nothing."""
_ParquetWriter: Any = pq.ParquetWriter  # type checkers believe its defaults, and know of no lists of columns


class TableFile:
    """The file at `path`, which must not be there. What is added waits in memory until it is a row group."""

    def __init__(self, path: Path, schema: pa.Schema, *, lasting: bool = False) -> None:
        """`lasting`: it is kept for long, so numbers that recur are worth a dictionary too. Raises `OSError`, as all
        the others do."""
        self._schema = schema
        self._object, self._local = (path, _spool(path)) if is_object(path) else (None, path)
        try:
            self._writer = self._new_writer(schema, lasting)
        except BaseException:
            self._drop_spooled()
            raise
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = self._held_rows = 0
        self._rows = 0

    def _new_writer(self, schema: pa.Schema, lasting: bool) -> Any:
        return _ParquetWriter(
            self._local,
            schema,
            compression="snappy",
            use_dictionary=_leaves(schema, [field for field in schema if _has_dictionary(field, lasting)]),
            write_statistics=_leaves(schema, [field for field in schema if field.name != "body"]),
            write_page_checksum=True,
            write_page_index=True,
            store_schema=False,
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of just the file's columns."""
        while self._held_rows + batch.num_rows > GROUP_ROWS:
            room = GROUP_ROWS - self._held_rows
            self._hold(batch.slice(0, room))
            self._write()
            batch = batch.slice(room)
        self._hold(batch)
        if self._held_bytes >= GROUP_BYTES:
            self._write()

    def finish(self) -> int:
        """Ends the file; how many rows it has. Where it fails, nothing of it is left to be sent."""
        try:
            self._write()
            self._writer.close()
            if self._object is not None:
                self._object.upload(self._local)
        finally:
            self._drop_spooled()
        return self._rows

    def abandon(self) -> None:
        """Lets go of it, whatever is in it; nothing where it was finished. Raises nothing."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._drop_spooled()

    def _drop_spooled(self) -> None:
        if self._object is None:
            return
        with suppress(OSError):  # a start sweeps what is left
            self._local.unlink(missing_ok=True)
            if self._local.parent.name.startswith(_OWN):
                self._local.parent.rmdir()

    def _hold(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._held.append(batch)
            self._held_rows += batch.num_rows
            self._held_bytes += batch.nbytes

    def _write(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema), self._held_rows)
            self._rows += self._held_rows
        self._held, self._held_bytes, self._held_rows = [], 0, 0


def _spool(path: ObjectPath) -> Path:
    """Where it is on this disk until it is whole: what becomes of a part of an upload, stores don't agree on."""
    folder = path.work_dir / UPLOADS
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    except OSError:  # a machine of the cluster that has no such folder
        folder = Path(tempfile.mkdtemp(prefix=_OWN))  # for this user alone: bodies are in it
    return folder / f"{uuid.uuid4().hex}.parquet"


def sweep_uploads(lake: Path) -> None:
    """Removes what killed processes had on its way to the bucket. For who has just taken the lake's lock, as nobody
    else writes then. What can't be removed is logged."""
    if not is_object(lake):
        return
    try:
        for file in (lake.work_dir / UPLOADS).glob("*.parquet"):
            file.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("can't delete the unfinished upload to %s: %s", lake, error)


def _has_dictionary(field: pa.Field, lasting: bool) -> bool:
    kind = field.type
    return field.name not in _UNLIKE and (lasting or pa.types.is_string(kind) or pa.types.is_nested(kind))


def _leaves(schema: pa.Schema, fields: list[pa.Field]) -> list[str]:
    """What Parquet calls the values of these columns."""
    leaves: list[str] = []
    for field in fields:
        name, kind = field.name, schema.field(field.name).type
        if pa.types.is_map(kind):
            leaves += [f"{name}.key_value.key", f"{name}.key_value.value"]
        else:
            leaves.append(f"{name}.list.element" if pa.types.is_list(kind) else name)
    return leaves
