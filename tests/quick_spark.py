"""What every Spark of the tests is given that isn't as users have it: a small one that is soon warm."""

from __future__ import annotations

from lakemq.jobs.session.java import QUICK

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""Options that `java` reads from its environment."""

QUICK_SPARK = {
    "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
    "LAKEMQ_SPARK__NICENESS": "0",
    JAVA_OPTIONS: f"{QUICK} -XX:+UseSerialGC",
}
"""The environment of `lakemq jobs` and other commands with a Spark."""

_FEW_ROWS = {
    # Tests have few rows in many plans: to write Java for each plan and compile it is a sixth of their processor time.
    # What starts processes of its own (kills, demos, notebooks) runs as all users' does, but for commands' examples.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def _heap(sizes: str) -> dict[str, str]:
    """All processes share two cores: a collector with threads of its own costs more than it saves. With Java's default
    sizes, garbage collection took a tenth of the session's CPU time: plans are short-lived, and the heap was small."""
    return {"spark.driver.defaultJavaOptions": f"-XX:+UseSerialGC {sizes} -XX:MetaspaceSize=300m"}


_WELL_WHEN_HOT = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400"
    " -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Four times what Java has: a test is a few plans, and what is soon warm is compiled well for nothing. To compile so
took a third of the session's CPU time; none at all of it costs more in the long run."""

SESSION_CONF = {
    **_heap(f"-Xms1536m -Xmn512m {_WELL_WHEN_HOT}"),
    **_FEW_ROWS,
    # A query without a pause between its batches asks for news 100 times a second.
    "spark.sql.streaming.pollingDelay": "50ms",
}
"""`spark.conf` of the one session that a test run has."""

COMMANDS_CONF = {
    **_heap("-Xms768m -Xmn256m"),
    **_FEW_ROWS,
    "spark.sql.shuffle.partitions": "1",
}
"""`spark.conf` of commands that bring many plans. Few are used twice, and to collect what is left of them costs more
than to keep it. `tests/demo` has a Spark as all users have it."""
