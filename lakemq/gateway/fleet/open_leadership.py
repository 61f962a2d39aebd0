"""The way to know who leads that the settings choose."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakemq.gateway.fleet.etcd_leadership import EtcdLeadership
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.gateway.fleet.object_store_leadership import ObjectStoreLeadership
from lakemq.gateway.fleet.objects import Objects
from lakemq.gateway.fleet.shared_folder import SharedFolder
from lakemq.gateway.fleet.static_leadership import StaticLeadership
from lakemq.model.errors import SettingsError
from lakemq.settings import Fleet, Settings
from lakemq.storage.disk.files import Files

logger = logging.getLogger(__name__)

ETCD_LOOKS, STORE_LOOKS = 20, 3
"""So often within a lease each of them is looked at; each look at a bucket is paid for."""


async def open_leadership(settings: Settings, files: Files, log_id: str) -> Leadership:
    """It, for the broker of these settings; `log_id`: the log of a static leader. A store that is away now is asked
    later. Raises `SettingsError` for a store that can't keep who leads."""
    fleet, broker = settings.fleet, settings.broker
    lease_s = fleet.lease_ms / 1000
    if fleet.leader == "static":
        return StaticLeadership(files, settings.storage.data_dir, log_id)
    if fleet.leader == "etcd":
        return EtcdLeadership(fleet.etcd_addresses, broker.cluster, broker.name, lease_s, lease_s / ETCD_LOOKS)
    kept = ObjectStoreLeadership(
        _objects(fleet, files), fleet.store, broker.cluster, broker.name, lease_s, lease_s / STORE_LOOKS
    )
    try:
        await kept.prove()
    except OSError as error:
        logger.warning("can't ask %s for the leader yet: %s", fleet.store, error)
    except BaseException:
        await kept.close()
        raise
    return kept


def _objects(fleet: Fleet, files: Files) -> Objects:
    parts = urlsplit(fleet.store)
    if parts.scheme == "file":
        return SharedFolder(files, Path(unquote(parts.path)))
    try:
        from lakemq.gateway.fleet.bucket import Bucket
    except ImportError as error:
        raise SettingsError(f"fleet.store is {fleet.store}: lakemq[object-store] is not installed ({error})") from None
    return Bucket(fleet.store, fleet.store_options, fleet.lease_ms / 1000)
