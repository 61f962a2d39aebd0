"""What deploy/ has is understood by who reads it, and says of lakemq what is so."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakemq.cli.jobs import jobs as jobs_command
from lakemq.cli.supervisor import REPLACED
from lakemq.cli.up import GATEWAY_GRACE_S
from lakemq.jobs.process.ending import ENDS_WITHIN_S, EXITS_WITHIN_S
from lakemq.objects.path import is_object
from lakemq.settings import Settings, load
from tests.cli.examples import call_of
from tests.packaging.containers import (
    COMPOSE,
    DEPLOY,
    KEYS,
    KUBERNETES,
    NAMESPACE,
    UNITS,
    Started,
    directives,
    documents,
    of_compose,
    of_image,
    of_kubernetes,
    of_units,
)
from tests.packaging.installed import BIN, ROOT

CONTAINERS = [*(each for file in COMPOSE for each in of_compose(file)), *of_kubernetes()]
JOBS = [each for each in CONTAINERS if each.command == "jobs"]
ALL = [*CONTAINERS, *of_units()]
GRACE_S = {
    "gateway": GATEWAY_GRACE_S,
    "nameserver": Settings().nameserver.stop_grace_ms / 1000,
    "jobs": ENDS_WITHIN_S + EXITS_WITHIN_S,
    "console": Settings().console.stop_grace_ms / 1000,
}
"""So long each may take to stop."""


def settings_of(started: Started) -> Settings:
    """What it reads of its environment, with no file: raises where a name or a value is none."""
    return load(Path("/dev/null"), started.environment)


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_files_are_such() -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE)


def test_manifests_are_such_as_kubernetes_knows() -> None:
    run(BIN / "kubernetes-validate", "--strict", "--quiet", *KUBERNETES)
    said = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yml").read_text(encoding="utf-8"))
    assert {*said["resources"]} == {file.name for file in KUBERNETES}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_such_as_systemd_knows(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    here.write_text(unit.read_text(encoding="utf-8").replace("/usr/local/lakemq/bin", str(BIN)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("started", ALL, ids=lambda each: each.place)
def test_each_command_and_each_setting_is_one(started: Started) -> None:
    call_of(shlex.join(started.arguments)).flags()
    settings_of(started)


@pytest.mark.parametrize("started", ALL, ids=lambda each: each.place)
def test_each_has_longer_to_stop_than_it_takes(started: Started) -> None:
    settings = settings_of(started)
    drain_ms = {"gateway": settings.gateway.drain_ms, "nameserver": settings.nameserver.drain_ms}.get(started.command)
    assert drain_ms != 0
    assert started.grace_s > GRACE_S[started.command] + (drain_ms or 0) / 1000


@pytest.mark.parametrize("started", CONTAINERS, ids=lambda each: each.place)
def test_each_container_may_write_where_it_writes_and_has_its_secrets(started: Started) -> None:
    settings, files = settings_of(started), set[str]()
    if started.command == "gateway":
        assert started.may_write(settings.storage.data_dir)
        files |= {str(settings.auth.admin_token_file), str(settings.fleet.nameserver_token_file)}
    if started.command == "nameserver":
        files |= {str(settings.nameserver.token_file)}
    elif started.command != "console":  # it writes nothing, and has no token: who looks brings one
        assert started.may_write("/tmp")
        scratch = settings.lake.work_dir if is_object(settings.lake.dir) else settings.lake.dir
        assert scratch is not None
        assert started.may_write(scratch)
        files |= {started.environment["LAKEMQ_TOKEN_FILE"]}
    files |= {file for file in (settings.tls.cert_file, settings.tls.key_file, settings.tls.ca_file) if file}
    assert files - {"None"} <= started.secrets


@pytest.mark.parametrize("started", CONTAINERS, ids=lambda each: each.place)
def test_each_is_asked_where_it_listens(started: Started) -> None:
    settings = settings_of(started)
    port = {
        "gateway": settings.gateway.port,
        "nameserver": settings.nameserver.port,
        "console": settings.console.port,
        "jobs": settings.sql_http.port,
    }[started.command]
    assert started.ports == {port}
    assert settings.auth.required
    if started.command == "gateway" and settings.gateway.advertise:
        assert settings.gateway.advertise.endswith(f":{settings.gateway.port}")


@pytest.mark.parametrize("started", JOBS, ids=lambda each: each.place)
def test_brokers_tell_others_where_jobs_answer_sql(started: Started) -> None:
    """Regression: they told of the jobs' own loopback, where neither users nor the console find it."""
    settings = settings_of(started)
    assert settings.sql_http.host == "0.0.0.0"
    services = [each for each in documents() if each["kind"] == "Service" and each["metadata"]["name"] == started.place]
    name = f"{started.place}.{NAMESPACE}.svc.cluster.local" if services else started.place.split(": ")[1]
    scheme = "https" if settings.tls.on else "http"
    assert settings.sql_http.advertise == f"{scheme}://{name}:{settings.sql_http.port}"
    for service in services:
        assert [each["port"] for each in service["spec"]["ports"]] == [settings.sql_http.port]
        policies = [each["spec"] for each in documents() if each["kind"] == "NetworkPolicy"]
        (own,) = [each for each in policies if each["podSelector"]["matchLabels"] == service["spec"]["selector"]]
        assert own["ingress"][0]["ports"] == [{"port": settings.sql_http.port}]


def test_brokers_and_jobs_of_kubernetes_ask_name_servers_by_the_names_these_go_by() -> None:
    by_name = {each.place: each for each in of_kubernetes()}
    hosts = settings_of(by_name["lakemq-nameserver"]).nameserver.hosts
    asked = settings_of(by_name["lakemq-broker-a"]).fleet.nameservers
    assert asked[0] == f"https://{hosts[0]}:9876"
    for name in ("lakemq-jobs", "lakemq-console"):
        assert by_name[name].environment["LAKEMQ_NAMESERVERS"] == ",".join(asked)
    servers = [each for each in documents() if each["kind"] == "StatefulSet" and each["metadata"]["name"] in hosts[0]]
    assert [each["spec"]["replicas"] for each in servers] == [len(asked)]


def test_pods_have_no_rights_and_probes_that_mean_it() -> None:
    for each in documents():
        if each["kind"] not in ("StatefulSet", "Deployment"):
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        if container["name"] != "jobs":
            paths: dict[str, Any] = {name: container[f"{name}Probe"]["httpGet"] for name in ("readiness", "liveness")}
            assert {name: probe["path"] for name, probe in paths.items()} == {
                "readiness": "/healthz" if container["name"] == "console" else "/readyz",
                "liveness": "/healthz",
            }
        if container["name"] == "gateway":
            startup = container["startupProbe"]
            assert startup["periodSeconds"] * startup["failureThreshold"] >= 600


def test_secrets_and_the_guide_name_the_same_files() -> None:
    guide = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    for secret, keys in KEYS.items():
        assert secret in guide
        assert all(key in guide for key in keys), keys
    for file in COMPOSE:
        for secret in yaml.safe_load(file.read_text(encoding="utf-8"))["secrets"].values():
            assert Path(secret["file"]).name in guide


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_hardened(unit: Path) -> None:
    said = directives(unit)
    assert said["User"] == ["lakemq"]
    assert said["ProtectSystem"] == ["strict"]
    assert said["CapabilityBoundingSet"] == [""]
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert said[name] == ["yes"], name
    assert said["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    assert said["SystemCallFilter"][0] == "@system-service"
    assert int(said["LimitNOFILE"][0]) >= Settings().gateway.connections_max
    assert said["Restart"] == ["on-failure"]
    assert (str(REPLACED) in said["RestartPreventExitStatus"][0]) == ("jobs" in unit.name)
    assert str(REPLACED) in (jobs_command.__doc__ or "")


def test_the_image_is_nobodys_and_is_told_to_stop() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    for stage in ("jobs", "gateway"):
        begin = next(number for number, line in enumerate(lines) if line.endswith(f" AS {stage}"))
        own = list(dict(enumerate(lines[begin + 1 :])).values())
        own = own[: next((number for number, line in enumerate(own) if line.startswith("FROM ")), len(own))]
        users = [line for line in own if line.startswith("USER ")]
        assert not users or users[-1] == "USER 10001:10001"
        assert 'ENTRYPOINT ["lakemq"]' in own
        assert f'CMD ["{stage}"]' in own
    assert "STOPSIGNAL SIGTERM" in lines
    assert "USER 10001:10001" in lines
    load(Path("/dev/null"), of_image())


def test_what_the_image_copies_is_let_through() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = {each for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for each in line.split()}
    ignore = (ROOT / ".containerignore").read_text(encoding="utf-8")
    through = {line[1:] for line in ignore.splitlines() if line.startswith("!")}
    assert copied | {"deploy/install-wheel.sh"} == through | {"deploy/install-wheel.sh"}
    assert all((ROOT / each).exists() for each in copied)
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8") == ignore
