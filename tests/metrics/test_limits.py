"""What an alert and `lakemq doctor` both warn of, they warn of at the same time."""

from __future__ import annotations

import re

from lakemq.cli.doctor.broker import CERTIFICATE_S_MIN
from tests.metrics.rules import rules


def test_a_certificate_is_to_be_renewed_at_the_same_time_for_the_alert_and_for_the_doctor() -> None:
    (expression,) = [rule["expr"] for rule in rules() if rule["alert"] == "LakemqCertificateExpires"]
    limits = [int(days) * int(seconds) for days, seconds in re.findall(r"< (\d+) \* (\d+)", expression)]
    assert limits == [CERTIFICATE_S_MIN] * expression.count("<")
    assert limits
