"""`make wheels`: the wheel in five empty environments, one for the client and for each extra, and what each can do.

With arguments only those: client, gateway, gateway,otel, jobs, all.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from lakemq.client.http import HttpClient
from lakemq.testing.server_process import ServerProcess
from tests.packaging.installed import Installed, build_wheel, install
from tests.packaging.smoke import client_works, gateway_works, traces_work

ROWS_S_MAX = 900


def _client(installed: Installed) -> None:
    """The others' gateway isn't there: only that it loads, and says so."""
    done = installed.run("lakemq", "topic", "list", broker="http://127.0.0.1:9")
    assert (done.returncode, "no answer" in done.stderr) == (1, True), done.stderr


def _gateway(installed: Installed) -> None:
    with gateway_works(installed) as url:
        client_works(installed, url)
    with installed.serve("nameserver", "lakemq", "nameserver", nameserver__port=0) as nameserver:
        assert nameserver.stop() == 0, nameserver.log


def _jobs(installed: Installed) -> None:
    """Without a web framework; the jars of Delta are got, and Spark answers."""
    done = installed.run("python", "-c", "import fastapi")
    assert done.returncode == 1, "the jobs need no web framework"
    assert installed.run("lakemq", "jobs", "--help").returncode == 0
    done = installed.run("python", "-m", "lakemq.jobs.session.setup_jars")
    assert done.returncode == 0, done.stderr


def _otel(installed: Installed) -> None:
    """Beside the gateway: traces go out."""
    traces_work(installed)


def _all(installed: Installed) -> None:
    """`lakemq up`: what is produced is in the lake."""
    places = {"storage__data_dir": installed.folder / "data", "lake__dir": installed.folder / "lake"}
    assert installed.run("python", "-m", "lakemq.jobs.session.setup_jars").returncode == 0
    with _up(installed, places) as url:
        client_works(installed, url)
        end_s = time.monotonic() + ROWS_S_MAX
        with HttpClient(url) as client:
            while client.broker()["compacted_position"] == 0:
                assert time.monotonic() < end_s, "nothing has come into the lake"
                time.sleep(1)
        wanted = "SELECT count(*) AS messages FROM live.messages WHERE topic = 'books'"
        done = installed.run("lakemq", "sql", wanted, "--format", "json", **places, broker=url)
        assert json.loads(done.stdout) == {"messages": 1}, done.stderr
        assert "starting Spark here" not in done.stderr


@contextmanager
def _up(installed: Installed, places: dict[str, Path]) -> Generator[str]:
    settings = {"gateway__port": 0, "sql__port": 0, "spark__driver_memory": "1g", **places}
    with installed.serve("gateway", "lakemq", "up", **settings) as up:
        yield up.url
        _stop(up)


def _stop(server: ServerProcess) -> None:
    assert server.stop() == 0, server.log
    assert "Traceback" not in "".join(server.log), server.log


CHECKS: dict[str, Callable[[Installed], None]] = {
    "client": _client,
    "gateway": _gateway,
    "gateway,otel": _otel,
    "jobs": _jobs,
    "all": _all,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *CHECKS], metavar="NAME", help=", ".join(CHECKS))
    names: list[str] = parser.parse_args().names
    folder = Path(tempfile.mkdtemp(prefix="lakemq-wheels-"))
    try:
        wheel = build_wheel(folder / "dist")
        for name in names or CHECKS:
            begun_s = time.monotonic()
            extras = "" if name == "client" else name
            CHECKS[name](install(wheel, extras, folder / name))
            sys.stdout.write(f"lakemq{f'[{extras}]' if extras else ''}: works, {time.monotonic() - begun_s:.0f} s\n")
            sys.stdout.flush()
            shutil.rmtree(folder / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
