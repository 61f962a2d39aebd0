"""`lakemq backup` and `lakemq restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakemq.cli.options import AsJson, BrokerName, DataDir, LakeDir, settings_of
from lakemq.cli.output import note, write_json, write_line


def backup(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, on this machine.")],
    data_dir: DataDir = None,
    lake: LakeDir = None,
    broker_name: BrokerName = None,
    lake_in: Annotated[
        Path | None,
        typer.Option("--lake-in", metavar="DIR", help="An earlier backup that has the lake of this broker."),
    ] = None,
    without_lake: Annotated[
        bool, typer.Option("--without-lake", help="Only the log, even if it no longer has all messages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Back up a broker's log, its state and the lake, in step.

    The broker and the jobs may keep running. The backup has every message that was acknowledged with ack=sync before
    it began. If several brokers share a lake, back up one with the lake and the others with --lake-in. If there is no
    lake although older messages have left the log for it, that is an error: see that it is mounted.

    \b
    lakemq backup /backups/monday
    lakemq backup /backups/monday --data-dir /var/lib/lakemq --lake /srv/lake --broker-name broker-a
    lakemq backup /backups/monday-b --data-dir /var/lib/lakemq --broker-name broker-b --lake-in /backups/monday
    lakemq backup /backups/monday-log --without-lake
    """
    settings = settings_of(context, storage__data_dir=data_dir, lake__dir=lake, broker__name=broker_name)
    if without_lake and lake_in is not None:
        raise typer.BadParameter("--lake-in names the backup that has the lake, so it can't be left out too")
    if lake_in is None and not without_lake:
        _check_on_disk(settings.lake.dir, "backup")
    from lakemq.storage.backup import back_up
    from lakemq.storage.disk.privacy import be_private

    be_private()
    source = None if without_lake else settings.lake.dir
    made = back_up(settings.storage.data_dir, source, folder, settings.broker.name, lake_in=lake_in)
    manifest = made.manifest
    if as_json:
        content = {"log_id": manifest.log_id, "files": len(manifest.files), "bytes": made.bytes}
        content |= {"first_position": manifest.first_position, "next_position": manifest.next_position}
        content |= {"tables": [each.name for each in manifest.tables], "missing_below": made.missing_below}
        write_json(content)
        return
    write_line(f"the log from position {manifest.first_position:,} to {manifest.next_position - 1:,}")
    for table in manifest.tables:
        write_line(f"the lake's table {table.name}, version {table.version}")
    write_line(f"{len(manifest.files):,} files, {made.bytes / 1024**2:,.1f} MiB in {folder}")
    if made.missing_below:
        note(f"messages below position {made.missing_below:,} are not in it: they are only in the lake")


def restore(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the backup.")],
    data_dir: DataDir = None,
    lake: LakeDir = None,
    as_json: AsJson = False,
) -> None:
    """Restore a broker from a backup, after checking every file.

    The folders must be new or empty. Messages keep their positions. The log gets a new id, so that positions given
    out after the backup are never mistaken for new ones.

    \b
    lakemq restore /backups/monday --data-dir data --lake lake
    """
    settings = settings_of(context, storage__data_dir=data_dir, lake__dir=lake)
    _check_on_disk(settings.lake.dir, "restore")
    from lakemq.storage.backup import restore as restore_backup
    from lakemq.storage.disk.privacy import be_private

    be_private()
    restored = restore_backup(folder, settings.storage.data_dir, settings.lake.dir)
    if as_json:
        content = {"log_id": restored.log_id, "messages": restored.messages}
        content |= {"next_position": restored.manifest.next_position, "missing_below": restored.missing_below}
        content |= {"broker": restored.manifest.broker or None}
        write_json(content)
        return
    write_line(f"{restored.messages:,} messages in the log in {settings.storage.data_dir}")
    if restored.manifest.tables:
        write_line(f"{len(restored.manifest.tables)} tables in the lake in {settings.lake.dir}")
    if restored.missing_below:
        note(
            f"messages below position {restored.missing_below:,} are missing: the backup was made without the lake, "
            f"and {settings.lake.dir} has none of them"
        )
    broker = restored.manifest.broker
    if broker not in ("", settings.broker.name):
        note(
            f"it is the log of {broker}, and broker.name is {settings.broker.name} here: start it as {broker} "
            f"(--broker-name {broker}), else the lake has nothing of it, and all its messages come there once more"
        )
    note(f"the log is a new one, {restored.log_id}: ids and receipts of before are not known to it")


def _check_on_disk(lake: Path, command: str) -> None:
    """Raises `NotInObjectStorage`, before anything is begun."""
    from lakemq.model.errors import NotInObjectStorage
    from lakemq.objects.path import is_object

    if is_object(lake):
        raise NotInObjectStorage(
            f"lakemq {command} only copies a lake on a disk, and this one is {lake}: use the bucket's own tools"
        )
