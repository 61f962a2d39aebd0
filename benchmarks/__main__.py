"""`python -m benchmarks [NAME …]`: the measures one after the other, their lines kept, a table at the end.

Options after `--` go to each of them: `python -m benchmarks single -- --seconds 5`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.results import say, table

MEASURES = (
    *(
        "disk",
        "single",
        "arrow_produce",
        "pull",
        "end_to_end",
        "restart",
        "restart_jobs",
        "compaction",
        "idle",
        "console",
        "memory",
    ),
    *("handover", "delay", "scheduled", "transactions", "nacks", "receive", "soak", "spark_away"),
    *("client_produce", "client_consume", "churn", "spread", "access"),
    *(
        "replication",
        "nameserver",
        "small_frames",
        "read_log",
        "live_query",
        "cold_pull",
        "sink",
        "optimize_day",
        "delta_commits",
        "topic_tables",
    ),
)
PEERS = {"peers": [], "routing_peers": ["routing"]}
_HERE = Path(__file__).parent
_SECONDS_MAX = 3 * 3600


def _command(name: str, arguments: list[str]) -> list[str]:
    if name in PEERS:
        return ["bash", str(_HERE / "peers.sh"), *PEERS[name], *arguments]
    return [sys.executable, "-m", f"benchmarks.{name}", *arguments]


def _machine() -> str:
    cpus = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in cpus.splitlines() if line.startswith("model name")), "?")
    return f"{os.cpu_count()} × {model}, Linux {platform.release()}, Python {platform.python_version()}"


def _run(name: str, arguments: list[str], out: Path) -> tuple[list[dict[str, Any]], bool]:
    """Run one measure, keep and pass on its lines as they come; whether it ended well."""
    say(f"== {name}")
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    with subprocess.Popen(_command(name, arguments), stdout=subprocess.PIPE, text=True, cwd=_HERE.parent) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            print(line, end="", flush=True)
            with out.open("a") as file:
                file.write(line)
            rows.append(json.loads(line))
        code = process.wait(_SECONDS_MAX)
    say(f"== {name}: {time.monotonic() - begin:.0f} s" + ("" if code == 0 else f", failed with {code}"))
    return rows, code == 0


def _peer_row(row: dict[str, Any]) -> dict[str, Any]:
    """A line of the peers' harness in the table's columns."""
    if "what" in row:
        return row
    units = {"msgs_per_s": "messages/s", "txn_per_s": "transactions/s", "fsyncs_per_s": "fsyncs/s", "p50_ms": "ms"}
    key = next((key for key in units if key in row), "error")
    value, unit = row.get(key, ""), units.get(key, "")
    more = [f"{key} {row[key]}" for key in ("clients", "batch", "label") if key in row]
    what = ", ".join([str(row.get("peer")), str(row.get("measure")), str(row.get("mode")), *more])
    return {**row, "what": what, "value": value, "unit": unit}


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The command's options, and what stands after `--`. Exits when there is no such measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join((*MEASURES, *PEERS))}")
    parser.add_argument("--quick", action="store_true", help="only show that they work")
    parser.add_argument("--out", type=Path, default=Path("artifacts/benchmarks.jsonl"))
    end = arguments.index("--") if "--" in arguments else len(arguments)
    chosen = parser.parse_args(arguments[:end])
    unknown = set(chosen.names) - {*MEASURES, *PEERS}
    if unknown:
        parser.error(f"no measure {sorted(unknown)[0]!r}")
    return chosen, arguments[end + 1 :]


def main() -> None:
    chosen, passed = parse(sys.argv[1:])
    default = MEASURES if chosen.quick else (*MEASURES, *PEERS)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    say(_machine())
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for name in chosen.names or default:
        found, well = _run(name, [*(["--quick"] if chosen.quick else []), *passed], chosen.out)
        rows += found
        failed += [] if well else [name]
    print(f"\n{_machine()}\n\n{table([_peer_row(row) for row in rows])}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
