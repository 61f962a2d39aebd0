"""What a session's conf is where the work is done by executors in processes of their own: `spark.master` isn't local.

Executors need three things that a local Spark has by itself: the jars of Delta, a Python with the libraries of
`lakemq`, and lakemq itself. Spark brings them the jars and this package's own files; the Python has to be there.
"""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

import lakemq
from lakemq.settings import Spark, is_loopback

PYTHON = "spark.pyspark.python"
"""The setting of Spark's for the Python of executors; without it they use the path that this one has."""

_STANDALONE = "spark://"
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
_PORT = re.compile(r":\d+$")


def is_cluster(master: str) -> bool:
    """Whether executors are other processes than the driver."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is None


def is_here(master: str) -> bool:
    """Whether all of the cluster is on this machine, by what its masters are called: then the driver needs to be
    reached from nowhere else."""
    if not is_cluster(master) or master.startswith("local-cluster"):
        return True
    if not master.startswith(_STANDALONE):
        return False
    names = master.removeprefix(_STANDALONE).split(",")
    return all(is_loopback(_PORT.sub("", name).strip("[]")) for name in names)


def conf_for(settings: Spark, conf: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """`conf` as a session of that master needs it, which sends `jars` to its executors. Where the cluster is on other
    machines Spark chooses by itself the address by which executors reach the driver, or `settings.conf` does."""
    kept = {key: value for key, value in conf.items() if is_here(settings.master) or key not in _ADDRESSES}
    kept |= settings.conf
    if jars:
        more = [each for each in settings.conf.get("spark.jars", "").split(",") if each]
        kept["spark.jars"] = ",".join([*map(str, jars), *more])
    return kept


def python_of_executors(settings: Spark, default: str) -> str:
    """The path of Python on the executors' machines: by the conf, by the environment, or as it is here."""
    return settings.conf.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or default


def ship_package(session: SparkSession) -> None:
    """Has executors import this `lakemq`, whether or not one is installed where they are."""
    session.sparkContext.addPyFile(str(package()))


def package() -> Path:
    """This package's files in one, which stays while this process does: executors that come later ask for it too."""
    return Path(_folder().name) / "lakemq.zip"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="lakemq-package-")
    root = Path(lakemq.__file__).parent
    with zipfile.ZipFile(Path(folder.name) / "lakemq.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path(root.name) / file.relative_to(root))
    return folder
