"""Who leads, as the settings say it: what can't be is refused before anything starts."""

from __future__ import annotations

import json

import pytest

from lakemq.model.errors import SettingsError
from lakemq.settings import load


def fleet(**values: object) -> dict[str, dict[str, object]]:
    return {"fleet": values}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"leader": "zookeeper"}, "fleet.leader"),
        ({"leader": "etcd"}, "fleet.store needs the addresses of its members, such as .*; it has 0 of them"),
        ({"leader": "etcd", "store": "10.0.0.1:2379"}, "fleet.store needs the addresses of etcd's members"),
        ({"leader": "etcd", "store": "s3://bucket/prefix"}, "fleet.store needs the addresses of etcd's members"),
        ({"leader": "etcd", "store": ",".join(f"http://a{each}:1" for each in range(16))}, "it has 16"),
        ({"leader": "object-store"}, "fleet.store needs an address like s3://bucket/prefix or file:///srv/shared"),
        ({"leader": "object-store", "store": "http://10.0.0.1:2379"}, "fleet.store needs an address like"),
        ({"leader": "object-store", "store": "s3://"}, "fleet.store needs an address like"),
        ({"leader": "object-store", "store": "file://srv/shared"}, "fleet.store needs an address like"),
        ({"leader": "object-store", "store": "file:///"}, "fleet.store needs an address like"),
        ({"leader": "object-store", "store": "s3://[half"}, "fleet.store needs an address like"),
        ({"leader": "object-store", "store": "s3://bucket/prefix?x=1"}, "fleet.store needs an address like"),
        ({"store": "http://10.0.0.1:2379"}, "fleet.leader is static and uses no store"),
        ({"store_options": {"region": "x"}}, "fleet.store_options are for a bucket"),
        (
            {"leader": "object-store", "store": "file:///srv", "store_options": {"region": "x"}},
            "fleet.store_options are for a bucket",
        ),
        ({"lease_ms": 499}, "fleet.lease_ms"),
        ({"lease_ms": 60_001}, "fleet.lease_ms"),
    ],
)
def test_a_way_to_know_who_leads_that_can_not_be_is_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(None, {}, fleet(**values))


def test_what_is_wrong_with_a_store_says_nothing_of_its_keys() -> None:
    for leader, store in (
        ("static", "s3://key:hidden@bucket/prefix"),
        ("object-store", "s3://key:hidden@bucket/prefix"),
        ("object-store", "http://bucket/prefix?sig=hidden"),
        ("etcd", "root:hidden@10.0.0.1:2379"),
        ("etcd", "http://root:hidden@10.0.0.1:2379 /"),
    ):
        with pytest.raises(SettingsError) as refused:
            load(None, {}, fleet(leader=leader, store=store))
        assert "hidden" not in refused.value.detail


def test_ways_to_know_who_leads_that_there_are() -> None:
    addresses = "http://10.0.0.1:2379, https://etcd.example:2379/,http://10.0.0.1:2379"
    assert load(None, {}, fleet(leader="etcd", store=addresses)).fleet.etcd_addresses == (
        "http://10.0.0.1:2379",
        "https://etcd.example:2379",
    )
    for store in ("s3://bucket", "gs://bucket/a/b", "file:///srv/shared"):
        assert load(None, {}, fleet(leader="object-store", store=store)).fleet.store == store
    named = {"LAKEMQ_FLEET__LEADER": "etcd", "LAKEMQ_FLEET__STORE": "http://a:1", "LAKEMQ_FLEET__LEASE_MS": "5000"}
    assert load(None, named).fleet.lease_ms == 5_000


@pytest.mark.parametrize("name", ["FLEET__STORE_OPTIONS", "SPARK__CONF", "MAINTENANCE__KEEP"])
def test_what_others_name_is_an_object_of_json_in_the_environment(name: str) -> None:
    section, key = name.lower().split("__")
    values = {"topic": "7d"} if key == "keep" else {"secret_access_key": "the secret"}
    said = {f"LAKEMQ_{name}": json.dumps(values)}
    bucket: dict[str, dict[str, object]] = {"fleet": {"leader": "object-store", "store": "s3://bucket/prefix"}}
    assert getattr(getattr(load(None, said, bucket), section), key) == values
    for wrong in (json.dumps(values)[:-1], json.dumps([*values.values()])):
        with pytest.raises(SettingsError) as refused:
            load(None, {f"LAKEMQ_{name}": wrong}, bucket)
        assert f"{section}.{key}" in refused.value.detail
        assert "the secret" not in refused.value.detail


def test_addresses_are_the_same_in_any_case() -> None:
    """Regression: HTTP:// was taken for an address that fits a gateway with TLS, and HTTPS:// for one without."""
    tls = {"LAKEMQ_TLS__CERT_FILE": "a", "LAKEMQ_TLS__KEY_FILE": "b"}
    with pytest.raises(SettingsError, match=r"gateway\.advertise is http://a:1, but with tls\.cert_file"):
        load(None, tls | {"LAKEMQ_GATEWAY__ADVERTISE": "HTTP://A:1"})
    assert load(None, tls | {"LAKEMQ_GATEWAY__ADVERTISE": "HTTPS://A:1/"}).gateway.advertise == "https://a:1"
    with pytest.raises(SettingsError, match=r"sql_http\.advertise is http://a:1, but with tls\.cert_file"):
        load(None, tls | {"LAKEMQ_SQL_HTTP__ADVERTISE": "http://a:1"})
    names = load(None, {"LAKEMQ_FLEET__NAMESERVERS": "HTTPS://A:1,https://a:1"}).fleet.nameservers
    assert names == ("https://a:1",)


def test_jobs_that_answer_sql_at_all_addresses_say_which_others_use() -> None:
    """Brokers hand it on: 0.0.0.0 would lead each client to its own machine."""
    everywhere = {"LAKEMQ_SQL_HTTP__HOST": "0.0.0.0", "LAKEMQ_AUTH__INSECURE": "true"}
    with pytest.raises(SettingsError, match=r"sql_http\.host is 0\.0\.0\.0, .*: set sql_http\.advertise"):
        load(None, everywhere)
    assert load(None, everywhere | {"LAKEMQ_SQL_HTTP__ADVERTISE": "http://jobs:8090"}).sql_http.names == ("jobs:8090",)
    assert not load(None, everywhere | {"LAKEMQ_SQL_HTTP__ENABLED": "false"}).sql_http.enabled
