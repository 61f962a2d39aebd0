from __future__ import annotations

import pytest

from lakemq.model.environment import is_malloc_said, read_environment
from lakemq.model.errors import SettingsError
from lakemq.settings import load

KNOWN = {"gateway": ["host", "port"], "sql": ["port"], "storage": ["data_dir"]}


def test_a_setting_is_named_by_its_section_and_key() -> None:
    named = {"LAKEMQ_GATEWAY__PORT": "1", "LAKEMQ_STORAGE__DATA_DIR": "d", "PATH": "/bin"}
    assert read_environment(named, KNOWN) == {"gateway": {"port": "1"}, "storage": {"data_dir": "d"}}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LAKEMQ_GATEWAY_PORT", "did you mean LAKEMQ_GATEWAY__PORT? (two underscores)"),
        ("LAKEMQ_STORAGE_DATADIR", "did you mean LAKEMQ_STORAGE__DATA_DIR? (two underscores)"),
        ("LAKEMQ_GATEWY__PORT", "did you mean LAKEMQ_GATEWAY__PORT?"),
        ("LAKEMQ_PORT", "did you mean LAKEMQ_GATEWAY__PORT or LAKEMQ_SQL__PORT?"),
        ("LAKEMQ_BROKERS", "did you mean LAKEMQ_BROKER?"),
        ("LAKEMQ_TOKENFILE", "did you mean LAKEMQ_TOKEN_FILE? (two underscores)"),
        ("LAKEMQ_COLOUR", "settings are named LAKEMQ_SECTION__KEY"),
        ("LAKEMQ_", "settings are named LAKEMQ_SECTION__KEY"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_the_right_spelling(name: str, hint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_environment({name: "9000"}, KNOWN)
    assert refused.value.detail == f"{name} in the environment is no setting: {hint}"


def test_names_of_lakemq_that_are_no_settings_are_let_pass() -> None:
    environment = {
        "LAKEMQ_BROKER": "http://a:1",
        "LAKEMQ_NAMESERVERS": "http://n:1",
        "LAKEMQ_NOTEBOOK": "{}",
        "LAKEMQ_TOKEN": "lmq_1_secret",
        "LAKEMQ_TOKEN_FILE": "token",
        "LAKEMQ_TEST_SEED": "7",
    }
    assert read_environment(environment, KNOWN) == {}


def test_what_kubernetes_says_of_a_service_named_like_us_is_let_pass() -> None:
    environment = {
        "LAKEMQ_PORT": "tcp://10.0.0.1:8080",
        "LAKEMQ_SERVICE_HOST": "10.0.0.1",
        "LAKEMQ_SERVICE_PORT_HTTP": "8080",
        "LAKEMQ_GATEWAY_PORT": "tcp://10.0.0.1:8080",
        "LAKEMQ_GATEWAY_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert read_environment(environment, KNOWN) == {}


def test_settings_know_their_own_names_and_refuse_others() -> None:
    assert load(environment={"LAKEMQ_GATEWAY__PORT": "9000"}).gateway.port == 9000
    with pytest.raises(SettingsError, match="did you mean LAKEMQ_GATEWAY__PORT"):
        load(environment={"LAKEMQ_GATEWAY_PORT": "9000"})
    with pytest.raises(SettingsError, match=r"'gateway\.prot' in the environment"):
        load(environment={"LAKEMQ_GATEWAY__PROT": "9000"})


def test_what_the_environment_says_of_memory_is_seen() -> None:
    assert is_malloc_said({"MALLOC_ARENA_MAX": "4"})
    assert is_malloc_said({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"})
    assert not is_malloc_said({"PATH": "", "MY_MALLOC_": ""})
