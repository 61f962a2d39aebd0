"""What tests of lakemq use, and tests of programs that use lakemq: a real gateway in a process of
its own, a clock that is set by hand, and files that fail on demand."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakemq import settings
from lakemq.storage.clock import SystemClock
from lakemq.storage.files import Files

READY = re.compile(r"gateway: listening on (http://\S+)")
START_S_MAX = 60


class GatewayProcess:
    """A gateway on a free port of 127.0.0.1. `log` is what it has written to stderr."""

    def __init__(self, data_dir: Path, options: dict[str, object], clock_offset_ms: int = 0) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        environment |= {"LAKEMQ_GATEWAY__PORT": "0", "LAKEMQ_STORAGE__DATA_DIR": str(data_dir)}
        environment |= {f"LAKEMQ_{name.upper()}": str(value) for name, value in options.items()}
        command = [sys.executable, "-m", "lakemq.gateway"]
        if clock_offset_ms:
            command = [sys.executable, "-m", "lakemq.testing", str(clock_offset_ms)]
        self._process = subprocess.Popen(  # noqa: S603  this Python, with arguments of our own
            command, env=environment, stderr=subprocess.PIPE, text=True
        )
        self.log: list[str] = []
        self.url = ""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S_MAX) or not self.url:
            self.kill()
            raise RuntimeError("the gateway did not start: " + "".join(self.log))

    def _read(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        for line in stream:
            self.log.append(line)
            found = READY.search(line)
            if found is not None:
                self.url = found.group(1)
                self._ready.set()
        self._ready.set()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def kill(self) -> None:
        """kill -9: what a crash does."""
        self._process.kill()
        self._wait()

    def stop(self) -> int:
        """Stop it as an operator would; returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self._process.wait(START_S_MAX)
        self._reader.join(START_S_MAX)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_gateway(data_dir: Path, clock_offset_ms: Any = 0, **options: object) -> GatewayProcess:
    """Start a gateway and wait until it is ready; raises `RuntimeError` with its log if it isn't.

    Options are settings as `section__key=value`; all others have their defaults. To go on at the
    same address after a restart, give `gateway__port`. `clock_offset_ms`: its clock is so much ahead
    of the system's: an hour passes without a wait.
    """
    return GatewayProcess(data_dir, options, clock_offset_ms)


class ShiftedClock(SystemClock):
    """The system's clock, so many ms ahead."""

    def __init__(self, offset_ms: int) -> None:
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        """The shifted time."""
        return super().now_ms() + self._offset_ms


class ManualClock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self.time_ms


class FaultyFiles(Files):
    """Real files that fail on demand.

    `room_bytes`: so many bytes can still be appended, the next one is `ENOSPC`, after as much was
    written as fits; None: no limit. `fail_sync`: the next fsync fails with `EIO`, and so do all
    later ones. `next_salt`: of new segments; 0 is what `encode` takes by default.
    `fail_truncate`: so does cutting files. `fail_replace`: so does writing whole files,
    which leaves the old content.
    """

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.next_salt = 0
        self.fail_sync = False
        self.fail_truncate = False
        self.fail_replace = False
        self.syncs = 0

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        if self.room_bytes is None:
            return super().append(descriptor, parts)
        data = b"".join(bytes(part) for part in parts)[: self.room_bytes]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().append(descriptor, (data,))
        self.room_bytes -= written
        return written

    def salt(self) -> int:
        return self.next_salt

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.fail_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        if self.fail_truncate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(descriptor, size)

    def replace(self, path: Path, content: Sequence[bytes | memoryview]) -> None:
        if self.fail_replace:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().replace(path, content)

    def free_bytes(self, path: Path) -> tuple[int, int]:
        free, total = super().free_bytes(path)
        return (free, total) if self.room_bytes is None else (min(free, self.room_bytes), total)


if __name__ == "__main__":
    from lakemq.gateway import serve

    serve(settings.load(), ShiftedClock(int(sys.argv[1])))
