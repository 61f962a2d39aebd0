"""What the documents show in blocks is done here as it stands there, a document after the other, against a broker with
its jobs. README's commands, the examples of the help and the client's programs have tests of their own. Of what takes
longer the arguments are looked at: what makes a broker (`make demo`) or moves messages (`lakemq replay`)."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

from lakemq.jobs import notebook
from lakemq.jobs.maintenance.catalogue import JOBS
from lakemq.jobs.session.discovery import find_server
from lakemq.jobs.session.token_file import read_token
from lakemq.jobs.sql.connect_client import ConnectClient
from tests.cli.examples import Call, all_examples, all_flags, call_of, explained
from tests.cli.shell import Run
from tests.cli.site import EXITS, UNTIL, WAIT_S_MAX, Site, run_until_told
from tests.client.test_docs import PROGRAMS
from tests.docs.commands import check
from tests.docs.documents import DOCUMENTS, ROOT, TYPED, Block, blocks
from tests.gateway.http_client import produce

pytestmark = pytest.mark.timeout(500)

FIRST = ("README.md", "docs/get_started.md")
"""Their commands are run by test_examples.py, as they go on with what the ones before have answered; what of them
replays or erases is looked at there as here."""
OPERATING = "docs/operate_fleet.md"
"""Its commands are run by test_operating.py, which starts and loses what they are about."""
SECURED = "docs/secured.md"
"""Its commands are run by test_secured.py, as they are about a broker of their own."""
INSTALL = "docs/install.md"
"""Its commands are run by tests/packaging/test_install_page.py, where there is what they need."""
AS_PROGRAMS = {place for place, _, _ in PROGRAMS}
"""Places of programs that tests/client/test_docs.py runs."""
NEEDS_A_WORKSPACE = ("databricks bundle validate ", "databricks bundle deploy ")
"""The one thing that isn't run; tests/jobs/maintenance/test_bundle.py checks what they are given."""
FLIGHT = {
    "body": '{"flight": 1, "tail": "N730MQ", "dep_delay": 75, "time_hour": "2013-01-01T05:00:00Z"}',
    "tag": "HA",
    "keys": ["UA1545", "N730MQ"],
}
EXAMPLES = all_examples()
_GIVEN = re.compile(r"(?:LAKEMQ_\w+=\S+ )+(?=lakemq )")
_KEPT = re.compile(r"([A-Z]+)=(\$\(.+\))")


def is_run_here(block: Block) -> bool:
    return (
        block.language in TYPED - {"toml"}
        and block.document not in (*FIRST, OPERATING, SECURED, INSTALL)
        and block.place not in AS_PROGRAMS
    )


SHOWN = {document: [block for block in blocks(document) if is_run_here(block)] for document in DOCUMENTS}


class Reader:
    """Somebody who types what a document shows, in the folder where the broker runs."""

    def __init__(self, site: Site, client: ConnectClient, run: Run, patch: pytest.MonkeyPatch) -> None:
        self._site, self._client, self._run, self._patch = site, client, run, patch
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def read(self, block: Block) -> None:
        """Do it."""
        do: dict[str, Callable[[str], None]] = {"sql": self._ask, "python": self._program}
        if block.language == "sh":
            for command in block.commands():
                self._command(command)
        else:
            do[block.language](self._placed(block.text))

    def _placed(self, text: str) -> str:
        """With what is elsewhere on this machine, and times and versions that there are."""
        server = find_server(self._site.folder / "lake")
        assert server is not None
        text = text.replace("http://127.0.0.1:8080", self._site.url).replace(":15002", f":{server.address[1]}")
        text = text.replace("http://127.0.0.1:9876", self._site.nameserver)
        text = re.sub(r"(?<=['/ ])/(?=srv/|backups/)", f"{self._site.folder}/", text)
        if "TIMESTAMP AS OF" in text:
            (version,) = self._client.run("DESCRIBE HISTORY messages LIMIT 1").batches
            text = re.sub(r"(TIMESTAMP AS OF) '[^']*'", f"\\1 '{version['timestamp'][0]}'", text)
        return re.sub(r"VERSION AS OF \d+", "VERSION AS OF 0", text)

    def _ask(self, statements: str) -> None:
        for statement in statements.strip().rstrip(";").split(";\n"):
            for _ in self._client.run(statement).batches:
                pass

    def _program(self, program: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program, "a document", "exec"), self._names)

    def end(self) -> None:
        """End the streams that the programs began, and their sessions: these ask for the server until they end."""
        for query in self._names.values():
            if isinstance(query, StreamingQuery):
                query.processAllAvailable()
                query.stop()
        for session in self._names.values():
            if isinstance(session, SparkSession):
                session.stop()
        notebook.__dict__.pop("spark", None)

    def _command(self, command: str) -> None:
        if command in EXAMPLES:  # test_examples.py runs it, some of them together
            return
        placed = self._placed(command)
        if found := _GIVEN.match(placed):  # for this command alone
            more = dict(each.split("=", 1) for each in found[0].split())
            call = call_of(placed[found.end() :])
            words = ["0" if word == "9876" else word for word in call.arguments]
            run_until_told(self._site, words, UNTIL[call.path[0]], **more)
            return
        if found := _KEPT.fullmatch(placed):
            self._patch.setenv(found[1], self._in_shell(f"printf %s {found[2]}"))
            assert os.environ[found[1]].startswith("http"), command
            return
        match command.split():
            case ["lakemq", *_]:
                self._lakemq(call_of(placed))
            case ["make" | "python", *_]:
                check(command, self._patch)
            case ["openssl" | "(umask", *_]:
                self._in_shell(placed)
            case ["curl", *_]:
                assert '"code":' not in self._in_shell(placed)
            case ["cp", *words]:
                self._in_shell(shlex.join(["cp", *(str(ROOT / word) for word in words[:-1]), words[-1]]))
            case ["uv", *_]:
                offline = f"--no-build-isolation --offline --out-dir dist {ROOT}"
                self._in_shell(f"{sys.executable} -m {command} {offline}")
            case _:
                assert command.startswith(NEEDS_A_WORKSPACE), f"{command}: shown but never run"

    def _lakemq(self, call: Call) -> None:
        assert call.flags() <= all_flags()
        match call.path:
            case ("sql",):
                self._ask(next(word for word in call.arguments[1:] if " " in word))
            case ("replay",) | ("erase",):
                self._ask(explained(call))
            case ("maintenance", "run"):
                assert call.arguments[2] in JOBS
            case ("notebook", "run"):
                assert (ROOT / call.arguments[2]).is_file()
            case _ if call.path[0] in UNTIL and "--max" not in call.arguments:
                run_until_told(self._site, call.arguments, UNTIL[call.path[0]])
            case _:
                done = self._run(*call.arguments)
                assert done.code in EXITS.get(call.path, (0,)), (call.arguments, done.stderr)
                if ">" in call.files:
                    (self._site.folder / call.files[">"]).write_text(done.stdout)

    def _in_shell(self, line: str) -> str:
        return subprocess.run(
            ["bash", "-c", line], cwd=self._site.folder, capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[ConnectClient]:
    """A session of the running jobs' Spark, as `lakemq sql` has it; so many flights as a document takes, and the
    tables that maintenance makes."""
    for _ in range(10):
        produce(site.http, "flights", *[FLIGHT] * 100)
    log = site.folder / "stats.log"
    assert site.start(["maintenance", "run", "stats"], log).wait(WAIT_S_MAX) == 0, log.read_text()
    server = find_server(site.folder / "lake")
    assert server is not None
    with ConnectClient(server, read_token(site.folder / "lake")) as connected:
        yield connected


@pytest.fixture
def reader(site: Site, client: ConnectClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    for name, value in (site.environment | {"LAKEMQ_STORAGE__DATA_DIR": "data"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)
    for name in ("backups", "data-2", "lake-2", "srv"):
        shutil.rmtree(name, ignore_errors=True)
    made = Reader(site, client, run, monkeypatch)
    yield made
    made.end()


@pytest.mark.parametrize("document", [document for document, shown in SHOWN.items() if shown])
def test_what_a_document_shows_does_what_it_shows(document: str, reader: Reader) -> None:
    for block in SHOWN[document]:
        reader.read(block)
