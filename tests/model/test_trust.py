"""Whom clients trust, as the environment says it."""

from __future__ import annotations

from lakemq.model.trust import Trust, trust_of


def test_it_is_said_by_the_names_of_the_settings() -> None:
    trust = Trust("/ca.pem", client_key_file="/key.pem")
    assert trust.as_environment() == {"LAKEMQ_TLS__CA_FILE": "/ca.pem", "LAKEMQ_TLS__CLIENT_KEY_FILE": "/key.pem"}
    assert trust_of(trust.as_environment()) == trust


def test_nothing_said_is_nobody_beside_the_system_s() -> None:
    assert trust_of({"LAKEMQ_TLS__CERT_FILE": "/server.pem"}) == Trust()
