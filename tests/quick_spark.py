"""What `lakemq jobs` and other commands with a Spark are given in tests: a small one that is soon warm."""

from __future__ import annotations

from lakemq.jobs.session.java import QUICK

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""What each Java of this version or a later one reads in its environment."""

QUICK_SPARK = {
    "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
    "LAKEMQ_SPARK__NICENESS": "0",
    JAVA_OPTIONS: f"{QUICK} -XX:+UseSerialGC",
}

INTERPRETED = {
    # Tests have few rows in many plans: to write Java for each plan and compile it is a sixth of their processor time.
    # What starts processes of its own (jobs, kills, demos) runs as all users' does, but for the site of tests/cli.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Of `spark.conf`, for a session of many plans with few rows."""
