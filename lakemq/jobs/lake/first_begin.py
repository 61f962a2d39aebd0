"""Whether a lake may begin with a broker's log as it is now.

A log only lets go of what a lake holds, or of what it drops as it is full. So a folder that has nothing of a broker
whose log has let go of messages is not that lake: it is not mounted, or it is another one. A lake that began there
would pass for the broker's own, and the log would let go of more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.log_client import LogClient, LogEnd
from lakemq.jobs.tables.tables import TABLES
from lakemq.storage.lake.delta_log import is_made
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.log.dropped import covers

logger = logging.getLogger(__name__)


def check_first_begin(
    lake: Path, clients: Mapping[str, LogClient], ends: Mapping[str, LogEnd], *, may_lack_older: bool
) -> None:
    """To be called before tables are made, with what the brokers say of their logs. Raises `LakeOutOfStep` where no
    table has anything of a broker whose log begins later than its first message, unless the log dropped all of that or
    `may_lack_older`; `BrokerUnavailable`, `OSError`."""
    late = {broker: end.begin_position for broker, end in ends.items() if end.begin_position > 0}
    known = _brokers_of(lake) if late else set[str]()
    for broker, first in late.items():
        if broker in known or covers(clients[broker].dropped(), 0, first):
            continue
        if may_lack_older:
            logger.warning("the lake in %s begins without the messages of %s before position %d", lake, broker, first)
            continue
        raise LakeOutOfStep(
            f"the lake in {lake} has nothing of {broker}, whose log begins at position {first}: older messages are in "
            "another lake, or nowhere. See that the folder is mounted and the right one (lake.dir, --lake), or put "
            "the lake back from a backup. To begin a new lake without them, start the jobs once with "
            "LAKEMQ_LAKE__MAY_LACK_OLDER=true"
        )


def _brokers_of(lake: Path) -> set[str]:
    paths = [table.path(lake) for table in TABLES]
    return {broker for path in paths if is_made(path) for broker in read_progress(path).held}
