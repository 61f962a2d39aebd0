"""What keeps others from Spark's own ports, and secrets from where others can read them.

Driver, block manager and executors take each other's messages, which are Java's objects, from whoever sends them: so
Spark is to ask for a secret (`spark.authenticate`). A local Spark, YARN's and Kubernetes' make it themselves, in memory
or in what they hand to executors. A standalone cluster has one for all its processes, which somebody has to give them.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from lakemq.model.errors import SettingsError
from lakemq.settings import Spark

AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"  # noqa: S105 (a name of Spark's)

_MAKES_ITS_OWN = re.compile(r"local(\[[^\]]*\])?|yarn|k8s://.*")
_KEPT_BACK = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Names of Spark's conf whose values it doesn't show (`spark.redaction.regex`)."""


def guard_conf(settings: Spark) -> dict[str, str]:
    """What of Spark's conf has its processes ask each other for a secret.

    Raises `SettingsError` for a standalone cluster without one, unless `spark.conf` says that it has none.
    """
    if settings.conf.get(AUTHENTICATE, "true").lower() == "false":
        return {}
    if not _MAKES_ITS_OWN.fullmatch(settings.master) and not settings.conf.get(SECRET):
        raise SettingsError(
            f"the processes of {settings.master} need a secret in common: spark.conf has no {SECRET} (docs/fleet.md, "
            f'"The jobs on a cluster"); where a network of their own keeps others away, {AUTHENTICATE} = "false" '
            "allows none"
        )
    return {AUTHENTICATE: "true"}


def kept_back(conf: dict[str, str]) -> dict[str, str]:
    """What of that conf nobody else is to read."""
    return {key: value for key, value in conf.items() if key.startswith("spark.") and _KEPT_BACK.search(key)}


def guard_callbacks() -> None:
    """Has this process ask the JVM for the JVM's own token, where that calls Python (a batch of a stream, a listener).

    PySpark opens that port without one: whoever found it called what the queries call. Py4J's Java would show the token
    that it has, and loses it as PySpark tells it the port.
    """
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    token = gateway.gateway_parameters.auth_token
    gateway.callback_server_parameters.auth_token = token
    ensure_callback_server_started(gateway)
    client: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client.getCallbackClient(), token)


def start_java_with(conf: dict[str, str], secret: dict[str, str]) -> None:
    """Starts the JVM of this process, where there is none yet, with both: `secret` isn't on its command line."""
    if not secret:
        return
    given = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        given.set(key, value)
    SparkContext._ensure_initialized(conf=given)  # pyright: ignore[reportPrivateUsage]
    jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    for key, value in secret.items():
        jvm.java.lang.System.setProperty(key, value)  # where each new conf of Spark's looks
