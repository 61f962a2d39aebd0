"""Whether a file of the lake is as it was written, told from its bytes.

Spark's local file system writes a sidecar `.{name}.crc` beside each file: a CRC-32 of each 512 bytes. Where it is
whole, it says all. Where it isn't, or another writer made the file, Parquet's own page checksums do.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"crc\0"
_READ_CHUNKS = 8192


def sidecar_of(path: Path) -> Path:
    """Where the file's checksums stand, if there are any."""
    return path.with_name(f".{path.name}.crc")


def fault_of(path: Path, size: int | None = None) -> str | None:
    """What is wrong with a Parquet or JSON file, in words; None: nothing. Reads all of it. Raises `OSError`
    when it can't be read for a reason that says nothing about its content."""
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        return f"{path.name} is missing"
    if size is not None and found != size:
        return f"{path.name} has {found} bytes, not {size}"
    sums = _sums(sidecar_of(path), found)
    if sums is not None:
        return None if _has_sums(path, sums) else f"{path.name} does not have its checksum"
    return _fault_of_content(path)


def drop_torn_sidecar(path: Path) -> None:
    """Remove the checksums of a sound file where they aren't whole: Spark would believe them."""
    sidecar = sidecar_of(path)
    if sidecar.exists() and _sums(sidecar, path.stat().st_size) is None:
        sidecar.unlink()


def _sums(sidecar: Path, size: int) -> tuple[int, bytes] | None:
    """The bytes that each sum is of, and the sums; None: there are none, or not as many as there must be."""
    try:
        data = sidecar.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < 8 or data[:4] != _MAGIC:
        return None
    (chunk,) = struct.unpack(">I", data[4:8])
    if not 0 < chunk <= 1 << 20 or len(data) - 8 != 4 * (-(-size // chunk)):
        return None
    return chunk, data[8:]


def _has_sums(path: Path, sums: tuple[int, bytes]) -> bool:
    chunk, wanted = sums
    at = 0
    with path.open("rb") as file:
        while data := file.read(chunk * _READ_CHUNKS):
            view = memoryview(data)
            found = b"".join(zlib.crc32(view[i : i + chunk]).to_bytes(4, "big") for i in range(0, len(data), chunk))
            if found != wanted[at : at + len(found)]:
                return False
            at += len(found)
    return at == len(wanted)


def _fault_of_content(path: Path) -> str | None:
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group)
        else:
            for line in path.read_bytes().splitlines():
                json.loads(line)
    except (pa.ArrowException, ValueError) as error:
        return f"{path.name} is torn: {str(error)[:200]}"
    except OSError as error:
        if error.errno is None:  # pyarrow's own word for what it can't decode
            return f"{path.name} is torn: {str(error)[:200]}"
        raise
    return None
