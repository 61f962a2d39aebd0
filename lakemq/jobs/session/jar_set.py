"""Jars that Spark's own package resolution gets once, kept inside the virtual environment: a session then starts
without a resolver and without a network. Each must be the one that is pinned."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from lakemq.jobs.errors import JarsNotGot, JarsUnavailable
from lakemq.jobs.session.remote import without_remote

ATTEMPTS_MAX = 4
_MANIFEST = "versions.txt"
_IVY = "ivy"
GETS_THEM = f"`{sys.executable} -m lakemq.jobs.session.setup_jars` gets them"
"""In a checkout as where a wheel was installed."""
_DIGEST_LINE = re.compile(r"^([0-9a-f]{64}) (\S+)$", re.MULTILINE)

logger = logging.getLogger(__name__)


def root() -> Path:
    """Where they are kept: inside the environment that this Python runs in."""
    return Path(sys.prefix) / "share" / "lakemq"


@dataclass(frozen=True)
class JarSet:
    """`module`, run with a folder, resolves them into its folder `ivy`, in a process of its own: the resolver talks a
    lot. `made`: what it makes itself, beside that, and is not pinned: its SHA-256 is in the manifest."""

    name: str
    what: str
    module: str
    pinned: str
    """The file, beside this one, with the SHA-256 of each."""
    versions: Callable[[], str]
    made: frozenset[str] = frozenset()

    def folder(self) -> Path:
        return root() / self.name

    def pins(self) -> dict[str, str]:
        """The SHA-256 of each jar, by its name."""
        lines = Path(__file__).with_name(self.pinned).read_text(encoding="utf-8").splitlines()
        return {name: digest for digest, name in (line.split() for line in lines)}

    def installed(self) -> list[Path]:
        """The jars, sorted; empty when they were never got, or for other versions than these.

        All are read, which takes some hundredths of a second: raises `JarsUnavailable` unless they are the
        pinned ones, and those that were made as they were made.
        """
        made = self._made_digests()
        if made is None:
            return []
        found = sorted(self.folder().glob("*.jar"))
        self._check(found, made)
        return found

    def _made_digests(self) -> dict[str, str] | None:
        """What the manifest says of each that was made; None where there is none, or not one of these versions."""
        manifest, versions = self.folder() / _MANIFEST, self.versions()
        if not manifest.exists():
            return None
        said = manifest.read_text(encoding="utf-8", errors="replace")
        found = {name: digest for digest, name in _DIGEST_LINE.findall(said.removeprefix(versions))}
        is_whole = found.keys() == self.made and said == versions + _digest_lines(found)
        return found if is_whole else None

    def install(self, attempts_max: int = ATTEMPTS_MAX) -> list[Path]:
        """Gets the jars unless they are there. Raises `JarsNotGot` when they can't be got, and why, and
        `JarsUnavailable` when they can't be kept or are not the pinned ones."""
        try:
            if not self.installed():
                self._install(attempts_max)
        except OSError as error:
            raise JarsUnavailable(f"can't keep {self.what} in {self.folder()}: {error}") from None
        return self.installed()

    def _install(self, attempts_max: int) -> None:
        work = self.folder().with_name(f"{self.name}.new")
        for attempt in range(1, attempts_max + 1):
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            logger.info("downloading %s (attempt %d of %d)", self.what, attempt, attempts_max)
            command = [sys.executable, "-m", self.module, str(work)]
            # A container's own name may be one that no name service has, and Java would ask for its address.
            environment = {"SPARK_LOCAL_IP": "127.0.0.1", **without_remote(os.environ)}
            # A home without a repository of Maven's: the resolver would take a pom from there whose jar isn't, and then
            # get that jar from nowhere else.
            options = os.environ.get("SPARK_SUBMIT_OPTS", "")
            environment["SPARK_SUBMIT_OPTS"] = f"{options} -Duser.home={work}".strip()
            found = subprocess.run(  # noqa: S603 (ours)
                command, capture_output=True, text=True, check=False, env=environment
            )
            if found.returncode == 0:
                break
            if attempt == attempts_max:
                shutil.rmtree(work, ignore_errors=True)
                raise JarsNotGot(f"can't get {self.what}: {cause_of(found.stdout + found.stderr)}")
            time.sleep(5 * attempt)
        for jar in not_in_spark(work / _IVY / "jars"):
            shutil.copy(jar, work / jar.name)
        shutil.rmtree(work / _IVY)
        made = {name: digest_of(work / name) for name in self.made if (work / name).exists()}
        self._check(sorted(work.glob("*.jar")), made)
        (work / _MANIFEST).write_text(self.versions() + _digest_lines(made), encoding="utf-8")
        shutil.rmtree(self.folder(), ignore_errors=True)
        work.rename(self.folder())

    def _check(self, found: list[Path], made: Mapping[str, str]) -> None:
        pins = self.pins()
        for jar in found:
            if jar.name in made:
                _check_made(jar, made[jar.name])
            else:
                check_pin(jar, pins.get(jar.name))
        missing = (pins.keys() | self.made) - {jar.name for jar in found}
        if missing:
            raise JarsUnavailable(f"{self.folder()} lacks {sorted(missing)[0]}: delete the folder; {GETS_THEM}")


def ivy_in(work: Path) -> str:
    """Where within that folder a resolver is to put what it gets."""
    return str(work / _IVY)


def digest_of(jar: Path) -> str:
    """Its SHA-256, in hex."""
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digest_lines(made: Mapping[str, str]) -> str:
    return "".join(f"{made[name]} {name}\n" for name in sorted(made))


def _check_made(jar: Path, digest: str) -> None:
    if digest_of(jar) != digest:
        raise JarsUnavailable(f"{jar} is not as it was made: delete the folder {jar.parent}; {GETS_THEM}")


def check_pin(jar: Path, pinned: str | None) -> None:
    """Raises `JarsUnavailable` unless the jar has that SHA-256."""
    found = digest_of(jar)
    if found != pinned:
        wanted = "it is none that is pinned" if pinned is None else f"the pinned one has {pinned}"
        raise JarsUnavailable(f"{jar} has the SHA-256 {found}, and {wanted}: it is not what lakemq was made with")


def not_in_spark(resolved: Path) -> list[Path]:
    """Those of the resolved jars that Spark does not bring itself, in whatever version."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    theirs = {_artifact(jar.name) for jar in spark_jars.glob("*.jar")}
    found = sorted(resolved.glob("*.jar"))
    return [jar for jar in found if _artifact(_without_group(jar.name)) not in theirs]


def _without_group(name: str) -> str:
    return name.partition("_")[2]


def _artifact(name: str) -> str:
    """`delta-storage-4.4.0.jar` → `delta-storage`."""
    return re.sub(r"-\d.*", "", name)


_CAUSES = (
    (r"PKIX|SSLHandshake|SSLPeerUnverified|certificat", "Java does not trust the server's certificate"),
    (r"UnknownHost|Name or service not known|unreachable|NoRouteToHost", "there is no network, or no such host"),
    (r"refused|timed out|ConnectException|SocketException", "the server does not answer"),
    (r"Permission denied|No space left", "they can't be kept"),
    (r"not found|unresolved dependency", "the server does not have them"),
)
"""What the resolver says, and what that means: the first that is found is the cause, others follow from it."""


def cause_of(said: str) -> str:
    """Why the jars couldn't be had, in one line, of all that Spark and its resolver said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for pattern, meaning in _CAUSES:
        found = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if found is not None:
            return f"{meaning} ({found[:300]})"
    return lines[-1] if lines else "Spark said nothing"
