"""TLS: by which certificate servers say who they are, and whom those trust that ask them."""

from __future__ import annotations

from pydantic import model_validator

from lakemq.model.trust import Trust
from lakemq.settings.section import Section


class Tls(Section):
    """PEM files (docs/security.md, "TLS"); empty: none.

    With `cert_file`, the server's certificate and its intermediate ones, and `key_file`, gateway and name server
    speak only TLS. With `client_ca_file`, clients need a certificate from one of these authorities. The files are
    read again when they change.

    For clients, jobs, followers and brokers: `ca_file`, authorities that they trust in addition to the system's;
    `client_cert_file` and `client_key_file`, for servers that require a certificate.
    """

    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""

    @property
    def on(self) -> bool:
        """Whether servers speak TLS."""
        return bool(self.cert_file)

    @property
    def trust(self) -> Trust:
        """For those that ask."""
        return Trust(self.ca_file, self.client_cert_file, self.client_key_file)

    @model_validator(mode="after")
    def _is_whole(self) -> Tls:
        for prefix in ("", "client_"):
            cert, key = f"{prefix}cert_file", f"{prefix}key_file"
            if bool(getattr(self, cert)) != bool(getattr(self, key)):
                given, lacking = (cert, key) if getattr(self, cert) else (key, cert)
                raise ValueError(f"tls.{given} is set and tls.{lacking} is not: a certificate needs its key")
        if self.client_ca_file and not self.cert_file:
            raise ValueError(
                "tls.client_ca_file is set and tls.cert_file is not: without TLS there are no client certificates"
            )
        return self
