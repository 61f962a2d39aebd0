"""What `lakemq jobs` and other commands with a Spark are given in tests: a small one that is soon warm."""

from __future__ import annotations

from lakemq.jobs.session.java import QUICK

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""Options that `java` reads from its environment."""

QUICK_SPARK = {
    "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
    "LAKEMQ_SPARK__NICENESS": "0",
    JAVA_OPTIONS: f"{QUICK} -XX:+UseSerialGC",
}
