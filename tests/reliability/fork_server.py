"""Python programs that start without their imports: forked from a process that has imported them already.

Most of a gateway's start is imports. What is killed a thousand times starts here with none; what runs after them is
the same program (`python -m MODULE`), in a process of its own, and dies by the same `kill -9`.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from lakemq.gateway.process.without_pandas import keep_pandas_out

REQUEST_BYTES_MAX = 65_536
GATEWAY = ("lakemq.gateway.process.server", "pydantic.v1", "uvicorn.lifespan.off")
"""What a gateway imports, and what FastAPI and uvicorn do as the first application is made."""
SERVERS = (*GATEWAY, "lakemq.nameserver.server", "lakemq.testing.clocks")
CONSOLE = ("lakemq.console.server", "uvicorn.lifespan.off")


class Forked:
    """A process, with those methods of `subprocess.Popen` that are used of it. `stderr` is what it writes there."""

    def __init__(self, server: ForkServer, pid: int, stderr: IO[str]) -> None:
        self._server = server
        self._ended = os.pidfd_open(pid)
        self._code: int | None = None
        self.pid = pid
        self.stderr = stderr

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and select.select([self._ended], [], [], 0)[0]:
            self._code = self._server.reap(self.pid)
            os.close(self._ended)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it ends. Raises `subprocess.TimeoutExpired`."""
        if self._code is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to stderr, once it ended."""
        self.wait(timeout)
        with self.stderr:
            return "", self.stderr.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._ended, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """One process that has imported what `modules` need, and forks for each start of one. Its children end with it."""

    def __init__(self, *modules: str, **environment: str) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.reliability.fork_server", str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=os.environ | environment)
        theirs.close()
        try:
            self._ask({})
        except BaseException:
            self.__exit__()
            raise

    def popen(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start `[python, "-m", module, …]`."""
        assert command[1] == "-m"
        reader, writer = os.pipe()
        try:
            request = {"module": command[2], "arguments": command[3:], "environment": environment}
            request["folder"] = str(Path.cwd())
            pid = self._ask(request, writer)
        finally:
            os.close(writer)
        return cast("subprocess.Popen[str]", Forked(self, pid, io.open(reader)))  # noqa: UP020  a descriptor

    def reap(self, pid: int) -> int:
        """The exit code of a child that has ended."""
        return self._ask({"reap": pid})

    def _ask(self, request: dict[str, Any], *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(100)
        if not answer:
            raise RuntimeError("the fork server has ended")
        return int(answer)

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait()


class LazyForks:
    """Fork servers, each there once the first program that needs it starts. `make` begins one, of these modules."""

    def __init__(self, make: Callable[..., ForkServer] = ForkServer) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, ...], ForkServer] = {}

    def popen(
        self, modules: tuple[str, ...], command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start `[python, "-m", module, …]`, forked from a process that has imported `modules`."""
        with self._lock:
            if modules not in self._servers:
                self._servers[modules] = self._make(*modules)
        return self._servers[modules].popen(command, environment)

    def close(self) -> None:
        """End them, and whatever they started."""
        for server in self._servers.values():
            server.__exit__()


def _serve(connection: socket.socket) -> None:
    children: set[int] = set()
    while True:
        content, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 1)
        if not content:
            break
        request = json.loads(content)
        answer = 0
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
            children.discard(request["reap"])
        elif "module" in request:
            answer = os.fork()
            if answer == 0:
                connection.close()
                _be(request, descriptors[0])
            os.close(descriptors[0])
            children.add(answer)
        connection.send(str(answer).encode())
    for child in children:
        os.kill(child, signal.SIGKILL)


def _be(request: dict[str, Any], stderr: int) -> None:
    """Be the program, and end with it."""
    os.dup2(stderr, 2)
    os.close(stderr)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["module"], *request["arguments"]]
    code = 1
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """`DESCRIPTOR MODULE…`, until the other end is closed."""
    keep_pandas_out()
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()
    assert threading.active_count() == 1, "a fork takes one thread along"
    _serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
