"""Finds out what the rules judge: of this machine, and of brokers."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakemq.cli.doctor.broker import LATE_S, Broker
from lakemq.cli.doctor.machine import Machine
from lakemq.cli.doctor.nameserver import NameServer
from lakemq.model.errors import (
    FlowControl,
    Forbidden,
    InvalidRequest,
    LakemqError,
    LogDamaged,
    SettingsError,
    Unauthenticated,
)
from lakemq.model.network import leads_home
from lakemq.objects.path import is_object
from lakemq.objects.table_place import check_fit
from lakemq.settings.section import is_loopback
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.wire.connections import NoAnswer
from lakemq.wire.name_servers import NameServers
from lakemq.wire.tls import NotTrusted

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.model.trust import Trust
    from lakemq.settings import Settings

ASK_S_MAX = 10.0
_CERTIFICATE_END = "lakemq_certificate_expiry_timestamp_seconds"
_LOOP_LAG = "lakemq_loop_lag_seconds"
_DEAD_OPEN = 'lakemq_group_dead_letters_open{group="'
Answer = TypeVar("Answer")


# This machine --------------------------------------------------------------------------------


def look_at_machine(settings: Settings) -> Machine:
    """What this machine has for a broker of these settings."""
    data = settings.storage.data_dir
    there = _nearest(data)
    free_bytes, total_bytes = Files().free_bytes(there)
    lake_exists, lake_fault = _lake(settings)
    return Machine(
        data_dir=str(data),
        data_exists=os.path.lexists(data),
        data_writable=os.access(there, os.W_OK | os.X_OK),
        log_fault=_fault_of(lambda: _check_log(data), "a gateway needs"),
        damage=_damage(data),
        token_mode=_mode_of(data / "admin.token"),
        free_bytes=free_bytes,
        total_bytes=total_bytes,
        lake_dir=str(settings.lake.dir),
        lake_exists=lake_exists,
        lake_fault=lake_fault,
        java_fault=_fault_of(_check_java),
        jars_fault=_fault_of(_check_jars),
        tls_fault=_fault_of(lambda: _check_tls(settings), "TLS needs"),
        files_max=_files_max(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        sql_stays=_sql_stays(settings),
    )


def _sql_stays(settings: Settings) -> str:
    gateway, sql_http = settings.gateway, settings.sql_http
    behind = bool(gateway.trusted_proxies) or (gateway.advertise != "" and not leads_home(gateway.advertise))
    is_open = behind or not is_loopback(gateway.host)
    host = f"[{sql_http.host}]" if ":" in sql_http.host else sql_http.host
    address = sql_http.advertise or f"{'https' if settings.tls.on else 'http'}://{host}"
    return address if sql_http.enabled and is_open and leads_home(address) else ""


def _nearest(folder: Path) -> Path:
    """The folder, or the one that it would be made in, as far as this user can see."""
    folder = folder.absolute()
    while not _is_seen(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _is_seen(folder: Path) -> bool:
    try:
        return folder.exists()
    except OSError:  # a folder above it is another user's
        return False


def _mode_of(file: Path) -> int | None:
    """None: there is none, or nobody but its owner can look, which is as well."""
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return None


def _lake(settings: Settings) -> tuple[bool, str]:
    """Whether it is there, and why it can't be used."""
    folder = settings.lake.dir
    if unfit := _fault_of(lambda: check_fit(folder)):
        return folder.exists(), unfit
    try:
        exists = folder.exists()
    except OSError as error:
        return False, f"it can't be reached: {error}"
    if is_object(folder):
        return exists, ""
    writable = os.access(_nearest(folder), os.W_OK | os.X_OK)
    return exists, "" if writable else "this user can't write there"


def _fault_of(check: Callable[[], object], needed_by: str = "the jobs need") -> str:
    try:
        check()
    except LakemqError as error:
        return error.detail
    except ImportError as error:
        return f"{error.name} is not installed: {needed_by} it"
    return ""


def _check_log(data: Path) -> None:
    """Raises `LakemqError` for what a start would refuse, as far as the segments' first bytes show it."""
    files, folder = Files(), data / "commitlog"
    try:
        if not folder.exists():
            return
        # here: with the client alone there is nothing to read a log with, and most often no log
        from lakemq.storage.log.recovery import interrupted, list_segments

        list_segments(files, folder)
        if interrupted(files, folder):
            raise LogDamaged("`lakemq log repair` did not come to its end: run it once more")
    except OSError:  # another user's, or it has just left
        return


def _damage(data: Path) -> str:
    try:
        if not (data / "commitlog").exists():
            return ""
        from lakemq.storage.mend.verify import glance_at_newest  # here: as above

        found = glance_at_newest(data)
    except (LakemqError, ImportError, OSError):
        return ""  # as a start would say; or it is another user's
    return "" if found is None else f"{found.segment} is damaged at byte {found.offset}: {found.reason}"


def _check_java() -> None:
    from lakemq.jobs.session.java import check_java

    check_java()


def _check_jars() -> None:
    from lakemq.jobs.errors import JarsUnavailable
    from lakemq.jobs.session.jar_set import GETS_THEM
    from lakemq.jobs.session.jars import DELTA

    if not DELTA.installed():
        raise JarsUnavailable(f"they are not there: {GETS_THEM}, and so does the first start of the jobs")


def _check_tls(settings: Settings) -> None:
    """Raises `SettingsError` for files of TLS by which no client would connect after a start."""
    files = settings.tls
    if not files.on:
        return
    if os.access(files.key_file, os.R_OK) or not _is_seen(Path(files.key_file)):  # else it is another user's
        # here: the client alone has no server
        from lakemq.web.tls import check_files

        check_files(files)


def _files_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


# Brokers -------------------------------------------------------------------------------------


def look_at_broker(address: str, client: HttpClient, clock: Clock) -> Broker:
    """What the broker there says, as far as it says anything to this user."""
    try:
        described = client.broker()
    except (Unauthenticated, Forbidden, FlowControl) as error:
        return Broker(address, not_let_in=error.detail)
    except NotTrusted as error:
        return Broker(address, not_trusted=error.detail)
    except LakemqError as error:
        return Broker(address, problem=error.detail, is_there=_was_asked(error))
    now_ms = clock.now_ms()
    unready, degraded = _readiness(client)
    silent: list[str] = []
    samples = dict(_lines(_as_told(client.metrics, "", silent)))
    end_s = samples.get(_CERTIFICATE_END)
    return Broker(
        address,
        version=described["version"],
        unready=unready,
        described=described,
        degraded=degraded,
        topics=_as_told(lambda: client.topics(system=True), [], silent),
        groups=_as_told(client.groups, [], silent),
        metrics=_plain(samples),
        dead_open=_by_label(samples, _DEAD_OPEN),
        silent=silent,
        ahead_s=(now_ms - described["steady_ms"]) / 1000,
        certificate_s=None if end_s is None else end_s - now_ms / 1000,
    )


def _was_asked(error: LakemqError) -> bool:
    from lakemq.client.errors import Unreachable

    return error.sent if isinstance(error, Unreachable) else not isinstance(error, SettingsError | InvalidRequest)


def look_at_name_server(address: str, trust: Trust | None) -> NameServer:
    """What the name server there knows."""
    with closing(NameServers([address], trust)) as asked:
        try:
            return NameServer(address, asked.replicas())
        except NoAnswer as error:
            return NameServer(address, problem=str(error))


def _readiness(client: HttpClient) -> tuple[str, list[str] | None]:
    try:
        return "", client.readiness().get("degraded")
    except LakemqError as error:
        return error.detail, []


def _as_told(ask: Callable[[], Answer], otherwise: Answer, silent: list[str]) -> Answer:
    """The answer; or that, where this user may not ask, or there is none: why is added to `silent`."""
    try:
        return ask()
    except (Unauthenticated, Forbidden):
        return otherwise
    except LakemqError as error:
        silent.append(error.detail)
        return otherwise


def _plain(samples: Mapping[str, float]) -> dict[str, float]:
    """Those without a label, and how many turns of the loop were late, as a share."""
    found = {name: value for name, value in samples.items() if "{" not in name}
    turns, in_time = samples.get(f"{_LOOP_LAG}_count", 0.0), samples.get(f'{_LOOP_LAG}_bucket{{le="{LATE_S:g}"}}')
    if turns and in_time is not None:
        found["loop_late"] = 1 - in_time / turns
    return found


def _by_label(samples: Mapping[str, float], begin: str) -> dict[str, float]:
    """Those of a metric with one label, by its value: `begin` is the text before that."""
    return {name[len(begin) : -2]: value for name, value in samples.items() if name.startswith(begin)}


def _lines(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            yield name, float(value)
