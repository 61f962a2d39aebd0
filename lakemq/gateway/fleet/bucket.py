"""Objects in a bucket of S3, or of what speaks it, of Google or of Azure: by obstore, without blocking."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import from_url

from lakemq.gateway.fleet.objects import NAMES_MAX, OBJECT_BYTES_MAX
from lakemq.model.errors import SettingsError

if TYPE_CHECKING:
    from obstore.store import RetryConfig

RETRIES = 2
CLIENT_OPTIONS = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only"),
        *("http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "pool_idle_timeout"),
        *("pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses"),
        *("read_timeout", "root_certificate", "timeout", "user_agent"),
    }
)
"""Options of the connection; all others are the store's, and obstore knows which there are."""


class Bucket:
    """`Objects` below that URL, such as `s3://bucket/prefix`."""

    def __init__(self, url: str, options: Mapping[str, str], answer_s: float) -> None:
        """What `options` don't say the environment does, such as `AWS_ACCESS_KEY_ID`. Raises `SettingsError`."""
        bound = timedelta(seconds=answer_s)
        client: Any = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
        client |= {"timeout": bound, "connect_timeout": bound}
        config: Any = {name: value for name, value in options.items() if name not in CLIENT_OPTIONS}
        retries: RetryConfig = {"max_retries": RETRIES, "retry_timeout": bound}
        try:
            self._store = from_url(url, config=config, client_options=client, retry_config=retries)
        except (BaseError, ValueError, TypeError) as error:
            said = _short(error)
            for value in (
                each for each in options.values() if len(each) > 3
            ):  # a key may stand under a name that is not its own
                said = said.replace(value, "…")
            raise SettingsError(f"fleet.store, or fleet.store_options: {said}") from None

    async def names(self, folder: str) -> list[str]:
        """`Objects.names`."""
        found = list[str]()
        async with _told():
            async for chunk in obstore.list(self._store, folder):
                found += [each["path"].rpartition("/")[2] for each in chunk]
                if len(found) > NAMES_MAX:
                    raise OSError(f"{folder} has more than {NAMES_MAX} objects: these can't be records of leaders")
        return found

    async def get(self, name: str, lasting: bool) -> bytes | None:
        """`Objects.get`: a bucket shows nothing that isn't lasting."""
        try:
            async with _told():
                found = await obstore.get_async(self._store, name)
                if (size := found.meta["size"]) > OBJECT_BYTES_MAX:
                    raise OSError(f"{name} has {size} bytes: this can't be a record of a leader")
                return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None

    async def put(self, name: str, data: bytes) -> None:
        """`Objects.put`."""
        async with _told():
            await obstore.put_async(self._store, name, data, mode="overwrite", use_multipart=False)

    async def put_new(self, name: str, data: bytes) -> bool:
        """`Objects.put_new`. A request whose answer is lost may be sent again: then the object is there."""
        try:
            async with _told():
                await obstore.put_async(self._store, name, data, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    async def delete(self, name: str) -> None:
        """`Objects.delete`."""
        try:
            async with _told():
                await obstore.delete_async(self._store, name)
        except FileNotFoundError:
            return

    async def close(self) -> None:
        """`Objects.close`: connections end by themselves."""


@asynccontextmanager
async def _told() -> AsyncGenerator[None]:
    """What obstore raises, as `OSError`."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(_short(error)) from None
    except NotSupportedError as error:
        raise OSError(errno.ENOTSUP, _short(error)) from None
    except BaseError as error:
        raise OSError(_short(error)) from None


def _short(error: Exception) -> str:
    """The first of what may be many lines."""
    return str(error).strip().partition("\n")[0][:500]
