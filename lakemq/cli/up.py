"""`lakemq up`: the gateway and all jobs, as child processes of one supervisor."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

import typer

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import (
    BrokerName,
    DataDir,
    Flush,
    Host,
    LakeDir,
    Parent,
    Port,
    global_options,
    settings_of,
    url_of,
)
from lakemq.cli.output import note
from lakemq.cli.supervisor import (
    LOOK_S,
    Restarted,
    describe_exit,
    start_child,
    stop_child,
    stop_requests,
)
from lakemq.model.errors import LakemqError

if TYPE_CHECKING:
    from lakemq.settings import Settings

READY_S_MAX = 600.0
"""How long recovery of a large log may take after a crash."""
JOBS_GRACE_S = 30.0
GATEWAY_GRACE_S = 30.0


def up(
    context: typer.Context,
    data_dir: DataDir = None,
    lake: LakeDir = None,
    host: Host = None,
    port: Port = None,
    broker_name: BrokerName = None,
    flush: Flush = None,
    parent_pid: Parent = None,
) -> None:
    """Run the gateway and all jobs here, until Ctrl-C.

    Jobs that end are started again, after a pause that grows to a minute. If the gateway ends,
    all stops with exit code 1.

    \b
    lakemq up
    lakemq up --data-dir /var/lib/lakemq --lake /srv/lake --port 9000
    """
    end_with_parent(parent_pid)
    settings = settings_of(
        context,
        storage__data_dir=data_dir,
        lake__dir=lake,
        gateway__host=host,
        gateway__port=port,
        broker__name=broker_name,
        storage__flush=flush,
    )
    stop = stop_requests()
    config = global_options(context).config
    _run(settings, [] if config is None else ["--config", str(config)], stop)


def _run(settings: Settings, leading: list[str], stop: Event) -> None:
    port = take_port(settings.gateway.host, settings.gateway.port)
    url = url_of(settings.gateway.host, port)
    gateway = start_child([*leading, *_gateway_arguments(settings, port)])
    jobs = Restarted(
        "jobs",
        lambda: start_child([*leading, "jobs", "--broker", url, "--lake", str(settings.lake.dir)]),
        note,
    )
    try:
        if not _wait_until_ready(gateway, url, stop):
            return
        note(f"lakemq: gateway on {url}, log in {settings.storage.data_dir}")
        note(f"lakemq: jobs start now; they write the lake in {settings.lake.dir}")
        note("lakemq: stop with Ctrl-C")
        while not stop.wait(LOOK_S):
            _check_alive(gateway)
            jobs.look()
        note("lakemq: stopping")
    finally:
        jobs.stop(JOBS_GRACE_S)
        stop_child(gateway, GATEWAY_GRACE_S)


def _gateway_arguments(settings: Settings, port: int) -> list[str]:
    return [
        "gateway",
        *("--data-dir", str(settings.storage.data_dir)),
        *("--host", settings.gateway.host),
        *("--port", str(port)),
        *("--broker-name", settings.broker.name),
        *("--flush", settings.storage.flush),
    ]


def _wait_until_ready(gateway: subprocess.Popen[bytes], url: str, stop: Event) -> bool:
    """True once the gateway answers; False when asked to stop before that."""
    from lakemq.client.http import HttpClient

    end_s = time.monotonic() + READY_S_MAX
    with HttpClient(url) as client:
        while not client.is_ready():
            _check_alive(gateway)
            if time.monotonic() > end_s:
                raise LakemqError(f"the gateway was not ready within {READY_S_MAX:.0f} s")
            if stop.wait(0.05):
                return False
    _check_alive(gateway)  # else it was another's gateway on that port that answered
    return True


def _check_alive(gateway: subprocess.Popen[bytes]) -> None:
    code = gateway.poll()
    if code is not None:
        raise LakemqError(f"the gateway ended ({describe_exit(code)}); all is stopped")


def take_port(host: str, port: int) -> int:
    """`port`, or a free one for 0; raises `LakemqError` where somebody listens already.

    Asked beforehand, because the gateway of somebody else would answer that it is ready.
    """
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise LakemqError(f"can't listen on {host}:{port}: {error.strerror}") from None
        return probe.getsockname()[1]
