"""What this machine has for a broker and its jobs, as facts and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakemq.cli.doctor.broker import OPEN_SQL
from lakemq.cli.doctor.finding import Finding, Grade

FREE_RATIO_MIN = 0.15
"""With less room than that nothing is taken for granted: retention counts on 85 % (storage.disk_high_ratio)."""
FILES_MIN = 4_096
"""Open files: each connection is one, and so is each segment that is read."""
MEMORY_BYTES_MIN = 2 * 2**30
_OTHERS_READ = 0o044
_GB = 2**30


class Machine(NamedTuple):
    """`data_*` and `lake_*`: of the folders that the settings name. `lake_fault`: why the lake can't be used; empty
    where it can. `log_fault`: why a start would refuse the log, as far as a glance shows it. `damage`: what of the
    newest segment can't be read, though it was on disk. `token_mode`: of `admin.token`; None: there is none.
    `java_fault`, `jars_fault`: why the jobs would not start; empty: they would.
    `tls_fault`: why no client would connect by TLS after a start; empty: they would, or it isn't spoken.
    `sql_stays`: the address of the jobs' SQL, where it leads clients on other machines to themselves, though the
    gateway lets such in; empty: it doesn't."""

    data_dir: str
    data_exists: bool
    data_writable: bool
    log_fault: str
    damage: str
    token_mode: int | None
    free_bytes: int
    total_bytes: int
    lake_dir: str
    lake_exists: bool
    lake_fault: str
    java_fault: str
    jars_fault: str
    tls_fault: str
    files_max: int
    memory_bytes: int
    sql_stays: str


def findings_of(machine: Machine, sql_is_open: bool = False) -> Iterator[Finding]:
    """What is wrong with it. `sql_is_open`: a broker names an address of SQL that others
    reach, whatever is set here."""
    yield from _disk(machine)
    yield from _lake(machine)
    for about, fault in (("Java", machine.java_fault), ("Spark's jars", machine.jars_fault)):
        if fault:
            yield Finding(Grade.WRONG, about, fault, "the jobs don't start without; the gateway does")
    if machine.tls_fault:
        do = "put a certificate that is valid, and its key, into the files of tls.cert_file and tls.key_file"
        yield Finding(Grade.WRONG, "TLS", machine.tls_fault, do)
    if machine.files_max < FILES_MIN:
        what = f"a process may have {machine.files_max:,} files open, and each connection is one"
        yield Finding(
            Grade.SOON, "open files", what, f"raise it: `ulimit -n {16 * FILES_MIN}`, or LimitNOFILE of systemd"
        )
    if machine.memory_bytes < MEMORY_BYTES_MIN:
        what = f"{machine.memory_bytes / _GB:.1f} GiB of memory: the jobs take about 2 GiB, the gateway 0.3"
        yield Finding(Grade.SOON, "memory", what, "run the jobs on another machine, or lower spark.driver_memory")
    if machine.sql_stays and not sql_is_open:
        what = f"the gateway is open to other machines, and the jobs' SQL, at {machine.sql_stays}, only to this one"
        yield Finding(Grade.NOTE, "SQL over HTTP", what, OPEN_SQL)


def _disk(machine: Machine) -> Iterator[Finding]:
    about = machine.data_dir
    if not machine.data_exists:
        yield Finding(Grade.NOTE, about, "there is no log yet", "it is made by the first start: `lakemq up`")
    elif not machine.data_writable:
        yield Finding(
            Grade.DOWN,
            about,
            "this user can't write there",
            "run as the user that owns it, or change its owner to this user",
        )
    if machine.log_fault:
        yield Finding(
            Grade.DOWN, about, machine.log_fault, "until then no gateway starts on it; its files are left as they are"
        )
    if machine.damage:
        yield Finding(
            Grade.WRONG,
            about,
            machine.damage,
            f"`lakemq log verify --data-dir {about}`, with the gateway stopped, shows all damage. A start mends"
            f" what the lake holds; where it refuses, `lakemq log repair --data-dir {about}` keeps what can be read",
        )
    if machine.token_mode is not None and machine.token_mode & _OTHERS_READ:
        what = f"others can read admin.token (mode {machine.token_mode:04o}): whoever reads it may do everything"
        yield Finding(
            Grade.WRONG,
            about,
            what,
            "chmod 600 it; if others are on this machine remove it and start again: that makes another",
        )
    if machine.total_bytes and machine.free_bytes < machine.total_bytes * FREE_RATIO_MIN:
        what = f"{machine.free_bytes / _GB:.1f} GiB of {machine.total_bytes / _GB:.0f} are free"
        do = "make room, or let the log be smaller: storage.log_bytes_max, storage.retention_ms"
        yield Finding(Grade.SOON, f"the disk of {about}", what, do)


def _lake(machine: Machine) -> Iterator[Finding]:
    if machine.lake_fault:
        yield Finding(Grade.WRONG, machine.lake_dir, machine.lake_fault, "until it can be, nothing leaves the log")
    elif not machine.lake_exists:
        yield Finding(
            Grade.NOTE,
            machine.lake_dir,
            "there is no lake yet",
            "it is made by the jobs: `lakemq up`, or `lakemq jobs`",
        )
