"""Jobs that another process asks for: files in `{lake}/_maintenance`, and no Spark.

The process that holds the lake's lock looks for `requests/{id}.json`, does the job and writes
`results/{id}.json`. The request stays until there is a result: who is killed between finds it again
at the next start. Every job can be run again.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lakemq.objects.path import beside
from lakemq.storage.disk.clock import SystemClock

FOLDER = "_maintenance"
"""The folder in the lake; Delta's readers pass over names like this."""

CANCEL = "cancel"
"""No job: what is under way, or waits, is to end, of `parameters["job"]` alone where that is there."""

ATTEMPTS_MAX = 3
"""A request that ended its process so often is answered with a failure."""

REQUESTS_MAX = 100
_LOCK = "_lock"


@dataclass(frozen=True)
class Request:
    """`starts`: how often somebody began with it; `asked_at`: in milliseconds since 1970; `asked_by`: the user who
    asked over HTTP; empty: a command did."""

    request_id: str
    job: str
    parameters: Mapping[str, Any]
    asked_at: int
    starts: int = 0
    asked_by: str = ""


def submit(lake: Path, job: str, parameters: Mapping[str, Any], asked_by: str = "") -> str:
    """Asks for a job; the id under which the result will be."""
    request = Request(uuid.uuid4().hex, job, parameters, SystemClock().now_ms(), asked_by=asked_by)
    _write(lake, request)
    return request.request_id


def withdraw(lake: Path, request_id: str) -> None:
    """Nobody waits for it any more; what is under way goes on."""
    _request_file(lake, request_id).unlink(missing_ok=True)


def is_asked(lake: Path, request_id: str) -> bool:
    """Whether it still waits for a result, and somebody for that."""
    return _request_file(lake, request_id).exists()


def waiting(lake: Path) -> list[Request]:
    """The oldest requests without a result, at most `REQUESTS_MAX`; what is malformed is removed."""
    found: list[Request] = []
    for file in (beside(lake) / FOLDER / "requests").glob("*.json"):
        try:
            request = Request(**json.loads(file.read_text(encoding="utf-8")))
            found.append(replace(request, parameters=dict(request.parameters), asked_at=int(request.asked_at)))
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, AttributeError):
            file.unlink(missing_ok=True)
    return sorted(found, key=lambda request: request.asked_at)[:REQUESTS_MAX]


def begin(lake: Path, request: Request) -> None:
    """Counts a start; before the work."""
    _write(lake, replace(request, starts=request.starts + 1))


def answer(lake: Path, request: Request, result: Mapping[str, Any]) -> None:
    """Writes the result, and only then removes the request."""
    write_atomically(_result_file(lake, request.request_id), json.dumps(result, ensure_ascii=False))
    withdraw(lake, request.request_id)


def take_result(lake: Path, request_id: str) -> dict[str, Any] | None:
    """The result, which is removed; None: there is none yet."""
    file = _result_file(lake, request_id)
    if not file.exists():
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    file.unlink(missing_ok=True)
    return content


def is_held(lake: Path) -> bool:
    """Whether some process writes the lake: it holds the lock (`lake.lock`)."""
    file = beside(lake) / _LOCK
    if not file.exists():
        return False
    with file.open("r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def write_atomically(file: Path, text: str) -> None:
    """Readers find the old content or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(f".{os.getpid()}-{uuid.uuid4().hex}.tmp")
    with beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(file)


def _write(lake: Path, request: Request) -> None:
    content = asdict(request)
    if not request.asked_by:  # which older jobs don't know
        del content["asked_by"]
    write_atomically(_request_file(lake, request.request_id), json.dumps(content, ensure_ascii=False))


def _request_file(lake: Path, request_id: str) -> Path:
    return beside(lake) / FOLDER / "requests" / f"{request_id}.json"


def _result_file(lake: Path, request_id: str) -> Path:
    return beside(lake) / FOLDER / "results" / f"{request_id}.json"
