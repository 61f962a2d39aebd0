"""`GET /metrics`, read."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """What a server says at once."""

    def __init__(self, http: httpx.Client) -> None:
        response = http.get("/metrics")
        assert response.status_code == 200, response.text
        self.text = response.text
        self.families = {each.name: each for each in text_string_to_metric_families(self.text)}
        samples = [sample for family in self.families.values() for sample in family.samples]
        self._samples: Samples = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
        assert len(self._samples) == len(samples), "a sample is said twice"

    def __call__(self, name: str, **labels: str) -> float:
        """The sample's value; raises `KeyError`."""
        return self._samples[name, frozenset(labels.items())]

    def values(self, name: str, label: str) -> dict[str, float]:
        """The samples of a metric by one label."""
        return {dict(labels)[label]: value for (each, labels), value in self._samples.items() if each == name}
