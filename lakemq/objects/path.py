"""`ObjectPath`: a name in a bucket with as much of `pathlib.Path` as the lake asks for.

A folder is there while something is in it. What is written appears whole, and is lasting when the call returns.
Whatever isn't here is refused: a local file of such a name would be made in silence otherwise.
"""

from __future__ import annotations

import fnmatch
import io
import os
from collections.abc import Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from lakemq.model.errors import NotInObjectStorage
from lakemq.objects.bucket import Access, Bucket, told

SCHEME = "s3://"

if TYPE_CHECKING:
    _Base = Path
else:
    _Base = object


class ObjectStat(NamedTuple):
    """As much of `os.stat_result` as is asked for. `st_ino` changes with the content."""

    st_size: int
    st_mtime: float
    st_ino: int

    @property
    def st_mtime_ns(self) -> int:
        return int(self.st_mtime * 1_000_000_000)


class ObjectPath(_Base):
    """`s3://bucket/key`. `work_dir` is the local folder of what can't be objects, for the whole lake."""

    __slots__ = ("_listed", "bucket", "key", "work_dir")

    if TYPE_CHECKING:  # type checkers would have it that a path is made of texts

        def __new__(
            cls, bucket: Bucket, key: PurePosixPath, work_dir: Path, listed: ObjectStat | None = None
        ) -> ObjectPath: ...

    def __init__(self, bucket: Bucket, key: PurePosixPath, work_dir: Path, listed: ObjectStat | None = None) -> None:
        self.bucket, self.key, self.work_dir = bucket, key, work_dir
        self._listed = listed

    @classmethod
    def parse(cls, url: str, access: Access, work_dir: Path) -> ObjectPath:
        """Of `s3://bucket/prefix`. Raises `ValueError`."""
        name, _, key = url.partition("://")[2].partition("/")
        parts = [part for part in key.split("/") if part]
        if not name or not parts or any(part in (".", "..") for part in parts) or set("?#@\\'`") & set(url):
            raise ValueError("a lake in object storage is such as s3://bucket/prefix")
        return cls(Bucket(name, access), PurePosixPath(*parts), work_dir)

    # Names -----------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        return ObjectPath, (self.bucket, self.key, self.work_dir)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket.name}/{self.key}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and (self.bucket, self.key) == (other.bucket, other.key)

    def __hash__(self) -> int:
        return hash((self.bucket.name, self.key))

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __fspath__(self) -> str:
        raise NotInObjectStorage(f"{self} is in object storage, and this works on local files only")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInObjectStorage(f"{self} is in object storage, where nothing can do {name!r}")

    def _at(self, key: PurePosixPath, listed: ObjectStat | None = None) -> ObjectPath:
        return ObjectPath(self.bucket, key, self.work_dir, listed)

    def __truediv__(self, other: Any) -> ObjectPath:
        return self._at(self.key / str(other))

    def absolute(self) -> ObjectPath:
        return self

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def suffix(self) -> str:
        return self.key.suffix

    @property
    def parts(self) -> tuple[str, ...]:
        return (SCHEME + self.bucket.name, *self.key.parts)

    @property
    def parent(self) -> ObjectPath:
        return self._at(self.key.parent)

    def with_name(self, name: str) -> ObjectPath:
        return self._at(self.key.with_name(name))

    # What is there ---------------------------------------------------------------------------

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Of an object; of one that was listed as it was then."""
        if self._listed is not None:
            return self._listed
        import obstore

        with told(str(self)):
            return _stat(obstore.head(self.bucket.store, str(self.key)))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        return next(self._list(chunk=1), None) is not None

    def iterdir(self) -> Generator[Path]:
        """Objects and folders of the next level."""
        import obstore

        with told(str(self)):
            found = obstore.list_with_delimiter(self.bucket.store, str(self.key))
        for folder in found["common_prefixes"]:
            yield self._at(PurePosixPath(folder))
        for each in found["objects"]:
            yield self._at(PurePosixPath(each["path"]), _stat(each))

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All objects below of such names; no folders, as there are none."""
        return (path for path in self._list() if fnmatch.fnmatchcase(path.name, pattern))

    def _list(self, chunk: int = 1000) -> Iterator[ObjectPath]:
        import obstore

        with told(str(self)):
            for some in obstore.list(self.bucket.store, str(self.key), chunk_size=chunk):
                for each in some:
                    yield self._at(PurePosixPath(each["path"]), _stat(each))

    # Content ---------------------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        import obstore

        with told(str(self)):
            return bytes(obstore.get(self.bucket.store, str(self.key)).bytes())

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8")

    def write_bytes(self, data: Any) -> int:
        """In place of what is there."""
        import obstore

        with told(str(self)):
            obstore.put(self.bucket.store, str(self.key), bytes(data), mode="overwrite", use_multipart=False)
        return len(data)

    def create(self, data: bytes) -> bool:
        """Where there is nothing; whether there was nothing. Of any number of processes one does. It may not be told
        so: after a lost answer the put is made again, and meets the object that it made itself."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with told(str(self)):
            try:
                obstore.put(self.bucket.store, str(self.key), data, mode="create", use_multipart=False)
            except (FileExistsError, AlreadyExistsError):
                return False
        return True

    def upload(self, file: Path) -> None:
        """A local file's content, however large it is; the object appears when it is whole."""
        import obstore

        with told(str(self)):
            obstore.put(self.bucket.store, str(self.key), file)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder is there when something is in it."""

    def unlink(self, missing_ok: bool = False) -> None:
        """S3 doesn't say whether there was something."""
        import obstore

        with told(str(self)):
            obstore.delete(self.bucket.store, str(self.key))


class ObjectFile(io.RawIOBase):
    """An object that is read from any place: each read is a request."""

    def __init__(self, path: ObjectPath) -> None:
        """Raises `FileNotFoundError`, `OSError`."""
        super().__init__()
        self._path, self._at, self._size = path, 0, int(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        import obstore

        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        with told(str(self._path)):
            data = bytes(obstore.get_range(self._path.bucket.store, str(self._path.key), start=self._at, end=end))
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()


def is_object(path: Path) -> TypeGuard[ObjectPath]:
    """Whether it is in object storage."""
    return isinstance(path, ObjectPath)


def beside(lake: Path) -> Path:
    """The local folder of what a lake's processes keep beside its tables and can make anew: locks, checkpoints,
    scratch, requests. Of a lake on a disk the lake's own."""
    return lake.work_dir if is_object(lake) else lake


def opened(path: Path) -> Any:
    """What pyarrow reads a file by. Raises `FileNotFoundError`, `OSError`."""
    return ObjectFile(path) if is_object(path) else path


def delta_options(path: Path) -> dict[str, str] | None:
    """What delta-rs has to know of where a table is, beside its name."""
    return path.bucket.access.options() if is_object(path) else None


def _stat(meta: Any) -> ObjectStat:
    return ObjectStat(int(meta["size"]), meta["last_modified"].timestamp(), hash(meta.get("e_tag")))
