"""What the files in deploy/ start, in whatever form they say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from tests.packaging.installed import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = sorted((DEPLOY / "compose").glob("*.yml"))
KUBERNETES = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yml") if path.name != "kustomization.yml")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
NAMESPACE = "lakemq"


@dataclass(frozen=True)
class Started:
    """A process: its command after `lakemq`, its environment, and what is around it."""

    place: str
    arguments: list[str]
    environment: dict[str, str]
    grace_s: int
    writable: set[str] = field(default_factory=set[str])
    """Folders that may be written."""
    secrets: set[str] = field(default_factory=set[str])
    """Files of secrets."""
    ports: set[int] = field(default_factory=set[int])
    """Ports that others are told of."""

    @property
    def command(self) -> str:
        """Which of lakemq's it is."""
        return next(each for each in self.arguments if not each.startswith(("-", "/")))

    def may_write(self, folder: Path | str) -> bool:
        """Whether the folder lies in one that may be written."""
        return any(Path(folder).is_relative_to(each) for each in self.writable)


def of_image() -> dict[str, str]:
    """The environment that images bring."""
    return dict(re.findall(r"(LAKEMQ_\w+)=(\S+)", (DEPLOY / "Containerfile").read_text(encoding="utf-8")))


def of_compose(file: Path) -> Iterator[Started]:
    """The services of a compose file."""
    said = yaml.safe_load(file.read_text(encoding="utf-8"))
    for name, service in said["services"].items():
        assert service["read_only"]
        mounted = {each.split(":")[1] for each in service.get("volumes", ())}
        ports = {int(each.rsplit(":", 1)[-1]) for each in (*service.get("ports", ()), *service.get("expose", ()))}
        yield Started(
            f"{file.name}: {name}",
            service["command"],
            of_image() | service.get("environment", {}),
            _seconds(service["stop_grace_period"]),
            mounted | {each.partition(":")[0] for each in service["tmpfs"]},
            {f"/run/secrets/{each}" for each in service.get("secrets", ())},
            ports | {int(each) for each in re.findall(r"127\.0\.0\.1:(\d+)/", str(service.get("healthcheck", "")))},
        )


def documents() -> list[dict[str, Any]]:
    """All objects of the manifests."""
    found = [each for file in KUBERNETES for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return cast("list[dict[str, Any]]", found)


def of_kubernetes() -> Iterator[Started]:
    """The containers of the manifests, as those of the first pod."""
    data = {each["metadata"]["name"]: each["data"] for each in documents() if each["kind"] == "ConfigMap"}
    for each in documents():
        if each["kind"] in ("StatefulSet", "Deployment"):
            pod = each["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield _started(each, pod, container, data)


def _started(
    workload: dict[str, Any], pod: dict[str, Any], container: dict[str, Any], data: Mapping[str, Mapping[str, str]]
) -> Started:
    name = workload["metadata"]["name"]
    environment = of_image()
    for source in container["envFrom"]:
        if "configMapRef" in source:
            environment |= data[source["configMapRef"]["name"]]
    fields = {"metadata.name": f"{name}-0", "metadata.labels['apps.kubernetes.io/pod-index']": "0"}
    for each in container["env"]:
        value = each.get("value")
        value = fields[each["valueFrom"]["fieldRef"]["fieldPath"]] if value is None else value
        environment[each["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], value)
    of_secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    writable, secrets = set[str](), set[str]()
    for mount in container["volumeMounts"]:
        secret = of_secrets.get(mount["name"])
        if secret is None:
            writable.add(mount["mountPath"])
        else:
            names = [item["path"] for item in secret["items"]] if "items" in secret else KEYS[secret["secretName"]]
            secrets |= {f"{mount['mountPath']}/{key}" for key in names}
    ports = {port["containerPort"] for port in container.get("ports", ())}
    grace_s = pod["terminationGracePeriodSeconds"]
    return Started(name, container["args"], environment, grace_s, writable, secrets, ports)


KEYS = {"lakemq-tls": ["tls.crt", "tls.key", "ca.crt"], "lakemq-tokens": ["admin.token", "nameserver.token"]}
"""What the secrets have in them that docs/install.md makes."""


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None, text
    return int(found[1])


def directives(unit: Path) -> dict[str, list[str]]:
    """What a unit says, by name; a name may come more than once."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def of_units() -> Iterator[Started]:
    """What the units start."""
    for unit in UNITS:
        said = directives(unit)
        (start,) = said["ExecStart"]
        program, *arguments = start.split()
        assert program == "/usr/local/lakemq/bin/lakemq"
        environment = dict(each.split("=", 1) for each in said.get("Environment", ()))
        writable = {f"/var/lib/{each}" for each in said.get("StateDirectory", ())}
        yield Started(unit.name, arguments, environment, int(said["TimeoutStopSec"][0]), writable)
