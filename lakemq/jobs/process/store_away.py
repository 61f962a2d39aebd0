"""Whether an error says that the lake's store is away, which passes, or that it refuses, which doesn't.

Java that has ended is neither: whatever asks it then fails as a connection does, and no new run mends that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deltalake.exceptions import DeltaError
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

_CAUSES_MAX = 20
_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|NoAuthWithAWSException"
    r"|Status Code: 40[13]\b|\b401 Unauthorized\b|\b403 Forbidden\b"
)
_LASTING = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
_AWAY_IN_JAVA = ("java.io.IOException", "java.io.UncheckedIOException")
_LASTING_IN_JAVA = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_UNANSWERED = (Py4JError, OSError)
"""What py4j raises where Java answers with an error, and where it is gone."""


def is_refused(error: BaseException) -> bool:
    """Whether the store knows who asks, and says no: other credentials or rights mend that, and no new run."""
    return any(_says_no(each) for each in _chain(error))


def is_away(error: BaseException) -> bool:
    """Whether the store didn't answer, or failed, or could not be written: a later run may find it well.
    False once Java has ended, whatever it was."""
    if java_has_ended():
        return False
    chain = list(_chain(error))
    return not any(_says_no(each) for each in chain) and any(_passes(each) for each in chain)


def java_has_ended() -> bool:
    """Whether this process had a Java, and it is dead."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    process: Any = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def failure_of(stream: StreamingQuery) -> Exception | None:
    """What ended the stream, with what Java threw, which Spark's own answer keeps as text only. None: nothing did."""
    error: Any = stream.exception()
    if error is not None and error._origin is None:
        java_stream: Any = stream._jsq  # pyright: ignore[reportPrivateUsage]
        error._origin = java_stream.exception().get()
    return error


def first_line(error: BaseException) -> str:
    """What it says; only its kind where that takes a Java that is gone."""
    return (_text(error).splitlines() or [type(error).__name__])[0]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except _UNANSWERED:
        return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """It, and what it was raised from."""
    found: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if found is None:
            return
        yield found
        found = found.__cause__


def _says_no(error: BaseException) -> bool:
    if isinstance(error, PermissionError):
        return True
    if not isinstance(error, OSError | DeltaError | Py4JJavaError | PySparkException):
        return False
    return _REFUSED.search(_text(error)) is not None or any(_REFUSED.search(text) for text in _texts_of_java(error))


def _passes(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return not isinstance(error, _LASTING)
    if type(error) is DeltaError:  # its kinds say more, and none of them passes
        return True
    chain = list(_java_chain(error))
    lasts = any(_is_a(each, _LASTING_IN_JAVA) for each in chain)
    return not lasts and any(_is_a(each, _AWAY_IN_JAVA) for each in chain)


def _texts_of_java(error: BaseException) -> list[str]:
    try:
        return [str(each.toString()) for each in _java_chain(error)]
    except _UNANSWERED:
        return []


def _java_chain(error: BaseException) -> list[Any]:
    """What Java threw, and why; nothing where Java doesn't answer any more."""
    thrown: Any = getattr(error, "java_exception", None)
    if thrown is None:
        thrown = getattr(error, "_origin", None)
    found: list[Any] = []
    try:
        while thrown is not None and len(found) < _CAUSES_MAX:
            found.append(thrown)
            thrown = thrown.getCause()
    except _UNANSWERED:
        return found
    return found


def _is_a(thrown: Any, names: tuple[str, ...]) -> bool:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    try:
        return gateway is not None and any(is_instance_of(gateway, thrown, name) for name in names)
    except _UNANSWERED:
        return False
