"""A bucket of S3, or of what speaks it: where it is, who asks, and what can be done with its objects."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakemq.model.errors import SettingsError

if TYPE_CHECKING:
    from obstore.store import RetryConfig, S3Store

RETRIES = 4
RETRY_MAX = timedelta(seconds=30)
_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_TOKEN = _ENVIRONMENT["session_token"][0]
_KEYS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True)
class Access:
    """How a bucket is reached. Empty: as the libraries find it by themselves, such as by the machine's role."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    allow_http: bool = False

    def completed(self, environment: Mapping[str, str]) -> Access:
        """With what AWS's names in the environment say beside. Keys belong together: all are from one place.

        Raises `ValueError` where the environment has a token that isn't of these keys: delta-rs would send it.
        """
        has_keys = bool(self.access_key_id)
        if has_keys and not self.session_token and environment.get(_TOKEN):
            raise ValueError(
                f"lake.storage has keys, and {_TOKEN} in the environment belongs to other keys and "
                f"would be sent with them: start without {_TOKEN}"
            )
        found = {
            name: next((environment[each] for each in names if environment.get(each)), "")
            for name, names in _ENVIRONMENT.items()
            if not getattr(self, name) and not (has_keys and name in _KEYS)
        }
        said = {name: getattr(self, name) for name in _ENVIRONMENT} | found
        return Access(**said, allow_http=self.allow_http)

    def options(self) -> dict[str, str]:
        """As delta-rs takes them."""
        options = {f"aws_{name}": getattr(self, name) for name in _ENVIRONMENT if getattr(self, name)}
        if self.allow_http:
            options["aws_allow_http"] = "true"
        return options


@dataclass(frozen=True)
class Bucket:
    """The bucket and the way to it. All that fails is `OSError`, what is not there `FileNotFoundError`."""

    name: str
    access: Access = field(default_factory=Access)

    @property
    def store(self) -> S3Store:
        """obstore's, one for the process."""
        return _store(self)

    def identity(self) -> str:
        """Of the store and its bucket, and not of who asks: a short text for names of files."""
        return hmac.new(b"lakemq", f"{self.access.endpoint}/{self.name}".encode(), hashlib.sha256).hexdigest()[:12]


def check_installed() -> None:
    """Raises `SettingsError` where what reads a bucket isn't installed: as the settings are loaded, and not later in
    the middle of something."""
    try:
        import_module("obstore")
    except ImportError:
        raise SettingsError("lake.dir is in object storage: pip install 'lakemq[object-store]'") from None


def _credentials(access: Access) -> Any:
    """As obstore asks for them; these never expire."""
    return {
        "access_key_id": access.access_key_id,
        "secret_access_key": access.secret_access_key,
        "token": access.session_token or None,
        "expires_at": None,
    }


@lru_cache(maxsize=32)
def _store(bucket: Bucket) -> S3Store:
    check_installed()
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    access = bucket.access
    has_keys = bool(access.access_key_id)
    names = [name for name in _ENVIRONMENT if not (has_keys and name in _KEYS)]
    config: Any = {name: value for name in names if (value := getattr(access, name))}
    # By itself obstore would send the environment's token beside keys that are not of it.
    provider = partial(_credentials, access) if has_keys else None
    client: Any = {"allow_http": bucket.access.allow_http}
    try:
        retries: RetryConfig = {"max_retries": RETRIES, "retry_timeout": RETRY_MAX}
        return S3Store(
            bucket.name, config=config, client_options=client, retry_config=retries, credential_provider=provider
        )
    except (BaseError, ValueError, TypeError) as error:
        raise SettingsError(f"lake.storage: {error}") from None


@contextmanager
def told(what: str) -> Generator[None]:
    """What obstore raises, as `OSError`; `PermissionError` where the store knows who asks, and refuses."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(what) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(f"{what}: {str(error).strip().partition(chr(10))[0][:500]}") from None
    except BaseError as error:
        raise OSError(f"{what}: {str(error).strip().partition(chr(10))[0][:500]}") from None
