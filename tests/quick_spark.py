"""What `lakemq jobs` and other commands with a Spark are given in tests: a small one that is soon warm."""

from __future__ import annotations

# Compiled once and quickly, as by `start_session(short_lived=True)`. Without the last word such a Java has room for
# 48 MiB of code: the driver of a few queries fills that, and then spends a tenth of its time on looking for room.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

QUICK_SPARK = {
    "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
    "LAKEMQ_SPARK__NICENESS": "0",
    "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
}
