"""Our classes for Spark's Java, compiled when the jars are set up. Spark brings a compiler, so no JDK is needed."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def source_of(name: str) -> Path:
    """The file of a class, beside this one."""
    return Path(__file__).with_name(f"{name}.java")


def version_of(name: str) -> str:
    """A line that differs whenever the source does."""
    return f"{name}.java {hashlib.sha256(source_of(name).read_bytes()).hexdigest()}\n"


def compile_into(jar: Path, name: str, session: SparkSession) -> None:
    """Makes the jar with that class, against what the session's Java has. Raises `Py4JJavaError`."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    # Jars that a session has got while it started are known to this loader alone.
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source_of(name).read_text(encoding="utf-8"))
    classes = compiler.getBytecodes()
    with zipfile.ZipFile(jar, "w") as made:
        for each in sorted(classes):
            made.writestr(zipfile.ZipInfo(f"{each.replace('.', '/')}.class"), bytes(classes[each]))
