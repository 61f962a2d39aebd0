"""The jars are the pinned ones, or the cause is said why there are none. But for one, nothing here starts Spark."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakemq.jobs.errors import JarsNotGot, JarsUnavailable
from lakemq.jobs.session import jar_set, jars, object_storage_jars, setup_jars
from lakemq.jobs.session.jar_set import JarSet, cause_of
from lakemq.jobs.session.jars import DELTA
from lakemq.jobs.session.object_storage_jars import S3A

S3A_FOLDER = S3A.folder()


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment's jars at another place."""
    shutil.copytree(DELTA.folder(), tmp_path / "jars", copy_function=shutil.copyfile)
    monkeypatch.setattr(jar_set, "root", lambda: tmp_path)
    return tmp_path / "jars"


def test_the_jars_are_those_that_are_pinned(copied: Path) -> None:
    assert {jar.name for jar in DELTA.installed()} == DELTA.pins().keys() | DELTA.made
    assert DELTA.install() == DELTA.installed(), "there is nothing to get"


def test_a_jar_that_was_changed_is_refused_though_it_has_its_old_size(copied: Path) -> None:
    jar = copied / sorted(DELTA.pins())[0]
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.write_bytes(content)
    with pytest.raises(JarsUnavailable, match=f"{jar.name} has the SHA-256 .* and the pinned one has"):
        DELTA.installed()


def test_a_jar_that_is_none_of_them_or_is_missing_is_refused(copied: Path) -> None:
    other = copied / "other.jar"
    other.write_bytes(b"")
    with pytest.raises(JarsUnavailable, match="none that is pinned"):
        DELTA.installed()
    other.unlink()
    name = sorted(DELTA.pins())[-1]
    (copied / name).unlink()
    with pytest.raises(JarsUnavailable, match=f"lacks {name}"):
        DELTA.installed()


def test_the_resolver_does_not_look_into_the_users_maven_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a pom there without its jar, as Maven leaves many, and the jars of S3A could not be had."""
    monkeypatch.setattr(jar_set, "root", lambda: tmp_path)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dhttps.proxyHost=proxy")
    none = JarSet("none", "nothing", "tests.jobs.session.resolver_options", "jars.sha256", lambda: "1")
    with pytest.raises(JarsNotGot, match=f"options: -Dhttps.proxyHost=proxy -Duser.home={tmp_path / 'none.new'}"):
        none.install(1)


def test_jars_of_other_versions_are_none(copied: Path) -> None:
    (copied / "versions.txt").write_text("delta-spark 0\n")
    assert DELTA.installed() == []


MADE = "lakemq-log-store.jar"


@pytest.fixture
def copied_s3a(copied: Path, s3a: None) -> Path:
    """Those of S3A too."""
    shutil.copytree(S3A_FOLDER, copied.parent / S3A.name, copy_function=shutil.copyfile)
    return copied.parent / S3A.name


def test_a_jar_of_ours_that_a_power_cut_has_torn_is_refused(copied_s3a: Path) -> None:
    assert MADE in {jar.name for jar in S3A.installed()}
    for torn in (b"", bytes(1000)):
        (copied_s3a / MADE).write_bytes(torn)
        with pytest.raises(
            JarsUnavailable, match=f"{MADE} is not as it was made: delete the folder.*setup_jars` gets them"
        ):
            S3A.installed()


def test_a_manifest_that_does_not_say_what_was_made_is_none(copied_s3a: Path) -> None:
    """One that a power cut has torn, or that was written before it said so."""
    manifest = copied_s3a / "versions.txt"
    whole = manifest.read_bytes()
    for torn in (b"", bytes(len(whole)), whole[:-1], whole[: whole.rindex(b"\n", 0, -1) + 1], whole + whole):
        manifest.write_bytes(torn)
        assert S3A.installed() == []
    manifest.write_bytes(whole)
    assert S3A.installed()


def test_setup_fails_for_a_jar_of_s3a_that_is_not_the_pinned_one(copied_s3a: Path) -> None:
    """Unlike one that can't be got."""
    jar = copied_s3a / sorted(S3A.pins())[0]
    jar.write_bytes(jar.read_bytes() + b"more")
    with pytest.raises(SystemExit, match=f"{jar.name} has the SHA-256"):
        setup_jars.main()


GATEWAY = "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited"
UNRESOLVED = "Exception in thread 'main' java.lang.RuntimeException: [unresolved dependency: io.delta#x;1: not found]"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "(javax.net.ssl.SSLHandshakeException: PKIX path building failed: x)",
            "does not trust the server's certificate",
        ),
        ("Host a.example not found. url=x java.net.UnknownHostException: a.example", "no network, or no such host"),
        ("java.net.ConnectException: Connection refused", "the server does not answer"),
        ("java.io.FileNotFoundException: x (Permission denied)", "they can't be kept"),
        ("nothing else", "the server does not have them (Exception in thread"),
    ],
)
def test_the_cause_is_said_and_not_what_follows_from_it(said: str, cause: str) -> None:
    told = cause_of(f":: problems summary ::\n{said}\n{UNRESOLVED}\nTraceback:\n{GATEWAY}\n")
    assert cause in told
    assert "\n" not in told
    assert "gateway process" not in told


def test_what_is_not_understood_is_the_last_line() -> None:
    assert cause_of(f"one\n{GATEWAY}\n\n") == GATEWAY
    assert cause_of("") == "Spark said nothing"


@pytest.fixture
def untrusted() -> Iterator[int]:
    """The port of a proxy that answers for every host itself, with a certificate that nobody has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):  # closed, at the end
                while True:
                    connection = listening.accept()[0]
                    threading.Thread(target=greet, args=(connection,), daemon=True).start()

        def greet(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                asked = b""
                while not asked.endswith(b"\r\n\r\n"):
                    more = connection.recv(1)
                    if not more:
                        return
                    asked += more
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_certificate_that_java_does_not_trust_is_the_cause_that_is_said(
    untrusted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={untrusted} -Duser.home={tmp_path}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{options} -XX:TieredStopAtLevel=1")
    # So it is in a process that has had a session at a server. The one that gets the jars wants none.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    monkeypatch.setattr(jar_set, "root", lambda: tmp_path)
    with pytest.raises(JarsUnavailable, match="can't get the Delta jars: Java does not trust the server's certificate"):
        jars.install(attempts_max=1)
    assert not (tmp_path / "jars.new").exists()


def test_only_a_lake_in_a_bucket_lacks_jars_of_s3a_that_can_not_be_had(
    copied: Path, untrusted: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Setup says so and goes on; a session for such a lake is refused, and it is said how they are got."""
    options = f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={untrusted} -Duser.home={copied.parent}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{options} -XX:TieredStopAtLevel=1")
    monkeypatch.setattr(setup_jars, "ATTEMPTS_MAX", 1)
    setup_jars.main()
    assert "can't get the jars of S3A: Java does not trust" in capsys.readouterr().err
    assert S3A.installed() == []
    with pytest.raises(JarsUnavailable, match=r"A lake in a bucket needs them, .*setup_jars` gets them"):
        object_storage_jars.install(1)
