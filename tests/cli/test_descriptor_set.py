"""`lakemq topic schema set --type protobuf`, of a descriptor set and of what `protoc` is given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.shell import Run, Shell
from tests.gateway.http_client import put_topic
from tests.model.protobuf_files import Members, files_of

M: Members = {"id": "1 int64"}
MORE: Members = {**M, "more": "2 string"}


def set_schema(run: Run, shell: Shell, file: Path | str, *options: str, stdin: str = "") -> Any:
    words = ("topic", "schema", "set", "proto", str(file), "--type", "protobuf", *options)
    return run(*words, "--broker", shell.url, stdin=stdin)


def shown(shell: Shell) -> Any:
    return json.loads(shell("topic", "schema", "show", "proto", "--json"))


@pytest.fixture(autouse=True)
def topic(shell: Shell) -> None:
    """Anew for each test."""
    with httpx.Client(base_url=shell.url, timeout=60) as http:
        http.delete("/v1/topics/proto")
        put_topic(http, "proto")


def test_a_descriptor_set_is_a_schema(run: Run, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "order.desc"
    file.write_bytes(files_of("shop", M=M, N=M).SerializeToString())
    done = set_schema(run, shell, file)
    assert (done.code, "which of these is it: shop.M, shop.N" in done.stderr) == (1, True)
    assert set_schema(run, shell, file, "--message", "shop.M").code == 0
    assert shown(shell)["columns"] == [{"name": "id", "type": "bigint"}]
    assert json.loads(shown(shell)["schema"])["message"] == "shop.M"
    alone = files_of("shop", M=MORE)
    del alone.file[:-1]
    del alone.file[0].dependency[:]
    assert set_schema(run, shell, "-", stdin=alone.SerializeToString().decode()).code == 0
    assert [each["name"] for each in shown(shell)["columns"]] == ["id", "more"]
    file.write_bytes(files_of("shop", M={"id": "1 bool"}).SerializeToString())
    done = set_schema(run, shell, file)
    assert (done.code, "id, field 1, was int64, and would be bool" in done.stderr) == (1, True)


def test_what_is_no_descriptor_set_is_refused(run: Run, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("message M {}")
    for file, why in (("text", "is no FileDescriptorSet"), ("none", "can't read")):
        done = set_schema(run, shell, tmp_path / file)
        assert (done.code, why in done.stderr) == (1, True), done.stderr
    words = ("topic", "schema", "set", "proto", str(tmp_path / "text"), "--message", "M", "--broker", shell.url)
    assert "--message is of --type protobuf alone" in run(*words).stderr


def test_a_proto_file_takes_protoc(run: Run, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "order.proto"
    file.write_text("message M {}")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = set_schema(run, shell, file)
    assert (done.code, "protoc isn't installed" in done.stderr) == (1, True)
    (tmp_path / "made").write_bytes(files_of("shop", M=MORE).SerializeToString())
    script = f"""#!{sys.executable}
import pathlib, sys
flags = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:-1])
assert (flags["proto_path"], sys.argv[-1]) == ({str(tmp_path)!r}, {str(file)!r}) and "include_imports" in flags
made = pathlib.Path({str(tmp_path / "made")!r})
sys.exit("order.proto:1:1: wrong") if not made.exists() else None
pathlib.Path(flags["descriptor_set_out"]).write_bytes(made.read_bytes())
"""
    (tmp_path / "protoc").write_text("#!/nowhere")
    (tmp_path / "protoc").chmod(0o700)
    done = set_schema(run, shell, file)
    assert (done.code, "protoc failed" in done.stderr) == (1, True), "it can't be run"
    (tmp_path / "protoc").write_text(script)
    assert set_schema(run, shell, file).code == 0
    (tmp_path / "made").unlink()
    done = set_schema(run, shell, file)
    assert (done.code, "can't compile" in done.stderr, "order.proto:1:1: wrong" in done.stderr) == (1, True, True)
