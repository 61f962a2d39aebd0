"""`lakemq up`: the gateway, all jobs and the console, as child processes of one supervisor."""

from __future__ import annotations

import socket
import time
from contextlib import closing, suppress
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING

import typer

from lakemq.cli.extras import need
from lakemq.cli.gateway_options import Given, gateway_arguments, takes_gateway_options
from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import global_options, settings_of, url_of
from lakemq.cli.output import note, remark
from lakemq.cli.supervisor import (
    LOOK_S,
    Restarted,
    describe_exit,
    start_child,
    stop_requests,
)
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.objects.table_place import check_fit
from lakemq.wire.credentials import files_as_environment
from lakemq.wire.found_token import FILE_NAME

if TYPE_CHECKING:
    from lakemq.settings import Settings

READY_S_MAX = 600.0
"""How long recovery of a large log may take after a crash."""
JOBS_GRACE_S = 30.0
GATEWAY_GRACE_S = 30.0
CONSOLE_GRACE_S = 10.0


@takes_gateway_options
def up(context: typer.Context, given: Given, parent_pid: int | None) -> None:
    """Run a broker, its jobs and the console until Ctrl-C.

    A part that ends is restarted, after a pause of up to a minute. Jobs whose lake other jobs have taken over are not
    restarted; the gateway goes on without them. If the gateway can't start because of a setting or a damaged log,
    everything stops with exit code 1. The console is left out if its port is taken or console.enabled is false.

    \b
    lakemq up
    lakemq up --data-dir /var/lib/lakemq --lake /srv/lake --port 9000
    lakemq up --host 127.0.0.1 --broker-name broker-b --flush sync
    lakemq up --nameservers http://127.0.0.1:9876 --advertise http://127.0.0.1:8080
    """
    need("fastapi", "pyspark")
    from lakemq.jobs.session.java import check_java
    from lakemq.web.tls import tls_of

    end_with_parent(parent_pid)
    settings = settings_of(context, **given)
    if settings.traces.endpoint:
        need("opentelemetry.sdk", "opentelemetry.exporter")
    if settings.fleet.leader != "static":
        raise SettingsError(
            f"fleet.leader is {settings.fleet.leader}: any replica may lead, and with lakemq up each "
            "would start jobs of its own for the same lake. Start each replica with lakemq gateway, and the "
            "jobs once with lakemq jobs --nameservers"
        )
    if settings.broker.follows:
        raise SettingsError(
            f"broker.replica is {settings.broker.replica}, a follower, and the jobs are its primary's: "
            "lakemq gateway starts it"
        )
    check_fit(settings.lake.dir)
    tls_of(settings)  # what is wrong with its files is said now
    check_java()  # without one the jobs would be started again and again
    stop = stop_requests()
    config = global_options(context).config
    _run(settings, [] if config is None else ["--config", str(config)], stop)


def _run(settings: Settings, leading: list[str], stop: Event) -> None:
    try:
        port = take_port(settings.gateway.host, settings.gateway.port)
    except LakemqError as error:
        raise LakemqError(f"{error.detail}; --port takes another, or 0 for any free one") from None
    url = url_of(settings.gateway.host, port, settings.tls.on)
    gateway = Restarted("gateway", lambda: start_child([*leading, *gateway_arguments(settings, port)]), note)
    jobs = Restarted(
        "jobs",
        lambda: start_child(
            [*leading, "jobs", "--broker", url, "--lake", str(settings.lake.dir)],
            environment=_found_token(settings, url),
        ),
        note,
    )
    console = _console(settings, leading, url)
    try:
        gateway.look()
        if not _wait_until_ready(gateway, url, stop):
            return
        ready = _Readiness(gateway, url)
        remark(f"gateway on {url}, log in {settings.storage.data_dir}")
        remark(f"jobs start now; they write the lake in {settings.lake.dir}")
        if console is not None:
            console.look()
        remark("stop with Ctrl-C")
        while not stop.wait(LOOK_S):
            gateway.look()
            ready.look()
            jobs.look()
            if console is not None:
                console.look()
        remark("stopping")
    finally:
        if console is not None:
            console.stop(CONSOLE_GRACE_S)
        jobs.stop(JOBS_GRACE_S)
        gateway.stop(GATEWAY_GRACE_S + settings.gateway.drain_ms / 1000)


def _found_token(settings: Settings, url: str) -> dict[str, str]:
    """By which the jobs know the administrator's token before they ask for anything."""
    file = settings.auth.admin_token_file or settings.storage.data_dir / FILE_NAME
    return files_as_environment({url: str(file.absolute())})


def _console(settings: Settings, leading: list[str], url: str) -> Restarted | None:
    """The console of this gateway; None where there is to be none, or can't be: nothing else stops for that."""
    if not settings.console.enabled:
        return None
    if find_spec("jinja2") is None:
        remark("no console, as that needs pip install 'lakemq[console]'")
        return None
    try:
        port = take_port(settings.console.host, settings.console.port)
    except LakemqError as error:
        remark(f"no console, as it {error.detail}; set another port: LAKEMQ_CONSOLE__PORT, or console.port")
        return None
    arguments = [*leading, "console", "--host", settings.console.host, "--port", str(port), "--broker", url]
    remark(f"console on {url_of(settings.console.host, port, settings.tls.on)}")
    return Restarted("console", lambda: start_child(arguments), note, needed=False)


class _Readiness:
    """Says when a gateway that was started again is ready."""

    def __init__(self, gateway: Restarted, url: str) -> None:
        self._gateway, self._url = gateway, url
        self._ready = gateway.child

    def look(self) -> None:
        child = self._gateway.child
        if child is None or child is self._ready:
            return
        from lakemq.client.http import HttpClient
        from lakemq.wire.tls import NotTrusted

        with HttpClient(self._url) as client, suppress(NotTrusted):  # by then its files have another certificate
            if client.is_ready():
                self._ready = child
                remark(f"the gateway is ready again on {self._url}")


def _wait_until_ready(gateway: Restarted, url: str, stop: Event) -> bool:
    """True once the gateway answers; False when asked to stop before that. Raises `LakemqError` where it ends, or has a
    certificate that isn't trusted here: the jobs wouldn't either."""
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


def _check_alive(gateway: Restarted) -> None:
    """Raises `LakemqError` where it ended: what never started is not tried again."""
    code = gateway.child.poll() if gateway.child is not None else 1
    if code is not None:
        raise LakemqError(f"the gateway {describe_exit(code)}; all is stopped")


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
