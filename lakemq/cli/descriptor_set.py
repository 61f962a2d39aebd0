"""A Protobuf schema of a file: a descriptor set, or a `.proto` file, which `protoc` makes one of."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lakemq.model.errors import InvalidRequest
from lakemq.model.protobuf_schema import only_message

_PROTOC_S_MAX = 60
_SHOWN = 500


def schema_of_file(file: Path, message: str | None) -> str:
    """The text of the schema. `file`: `-` is a descriptor set from stdin. `message`: its full name; None: the file has
    one message. Raises `InvalidRequest`."""
    if file.suffix == ".proto":
        content = _compiled(file)
    else:
        try:
            content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise InvalidRequest(f"can't read {file}: {error}") from None
    name = message or only_message(content)
    return json.dumps({"message": name, "descriptor_set": base64.b64encode(content).decode()})


def _compiled(file: Path) -> bytes:
    """Imports are found in the file's folder. Raises `InvalidRequest`."""
    protoc = shutil.which("protoc")
    if protoc is None:
        raise InvalidRequest(
            f"protoc isn't installed here, and only it reads {file.name}. Where it is, run `protoc --include_imports "
            f"--descriptor_set_out={file.stem}.desc {file.name}`, and set {file.stem}.desc"
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "set.desc"
        command = [protoc, f"--proto_path={file.resolve().parent}", "--include_imports", f"--descriptor_set_out={made}"]
        try:
            done = subprocess.run(  # noqa: S603 (the user's own protoc)
                [*command, str(file.resolve())], capture_output=True, text=True, check=False, timeout=_PROTOC_S_MAX
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidRequest(f"protoc failed: {error}") from None
        if done.returncode != 0:
            raise InvalidRequest(f"protoc can't compile {file}: {done.stderr.strip()[:_SHOWN]}")
        return made.read_bytes()
