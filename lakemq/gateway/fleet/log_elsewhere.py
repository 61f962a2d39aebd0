"""Whether another replica of the broker has a log: then a replica that has none begins no new one."""

from __future__ import annotations

from lakemq.settings import Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.log.recovery import list_segments
from lakemq.wire.connections import NoAnswer
from lakemq.wire.name_servers import NameServers


def has_log(settings: Settings, files: Files) -> bool:
    """Whether this replica has one, however little; its directory is made. Raises `LogVersion`, `OSError`."""
    directory = settings.storage.data_dir / "commitlog"
    files.make_dirs(directory)
    return len(list_segments(files, directory)) > 0


def log_elsewhere(settings: Settings, files: Files) -> str | None:
    """Why no log may be begun here, although nobody is known to lead; None: one may, or there is one. All name servers
    are asked, as each knows only who has told it; while none answers that isn't known. Takes as long as they do; raises
    `OSError`."""
    servers = settings.fleet.nameservers
    if has_log(settings, files) or not servers:
        return None
    failures: list[str] = []
    for address in servers:
        asked = NameServers([address], trust=settings.tls.trust)
        try:
            found = asked.replicas()
        except NoAnswer as error:
            failures.append(str(error))
            continue
        finally:
            asked.close()
        for each in found:
            is_other = (each.broker, each.cluster) == (settings.broker.name, settings.broker.cluster) and each.log_id
            if is_other and each.replica != settings.broker.replica:
                return (
                    f"replica {each.replica} at {each.address} has the log {each.log_id}, and the store has no "
                    "record: it has lost it. Use lakemq broker elect --unclean at the replica that has the most"
                )
    if len(failures) == len(servers):
        return f"whether another replica has a log isn't known, so none is begun here: {failures[0]}"
    return None
