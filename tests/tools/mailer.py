"""A mail server that a test scripts, and that remembers each message whose end it has read."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP as POLICY
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

HANG, CLOSE = "hang", "close"        # in place of a reply
DROP = "drop"                        # in place of the last one: cut, and the message thrown away
SAYS = {"mail": "250 2.1.0 ok", "rcpt": "250 2.1.5 ok", "data": "250 2.0.0 queued"}
ENOUGH = 3600                        # seconds


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself; and its key."""
    certificate, key = directory / "mail.pem", directory / "mail.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=mail", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", str(key), "-out", str(certificate)], check=True,
                   stderr=subprocess.DEVNULL)
    return certificate, key


@dataclass
class Mail:
    t: float
    sender: str
    recipients: list[str]
    content: bytes
    said: str                        # to its end

    @property
    def accepted(self) -> bool:
        return self.said.startswith("250")

    @property
    def message(self) -> EmailMessage:
        return BytesParser(policy=POLICY).parsebytes(self.content)


class Mailer(Controller):
    """`implicit`: TLS from the first byte, else with a certificate by STARTTLS."""

    def __init__(self, certificate: tuple[Path, Path] | None = None, implicit: bool = False,
                 login: tuple[str, str] | None = None) -> None:
        self.mails: list[Mail] = []
        self.said = dict(SAYS)       # at each step, to everybody
        self.once: dict[str, list[str]] = {}    # step: before that, one after the other
        self.think = (0.0, 0.0)      # seconds that it takes over a message
        self.login = login
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.implicit = implicit
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        super().__init__(self, hostname="127.0.0.1", port=port,
                         ssl_context=self.context if implicit else None)

    def factory(self) -> SMTP:
        how: dict[str, Any] = {}
        if self.context and not self.implicit:
            how = {"tls_context": self.context, "require_starttls": True}
        if self.login:
            how |= {"auth_required": True, "authenticator": self._authenticate,
                    "auth_require_tls": not self.implicit}
        return SMTP(self, data_size_limit=1024 * 1024, **how)

    def __enter__(self) -> "Mailer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(no_assert=True)

    @property
    def url(self) -> str:
        return f"smtp{'s' if self.implicit else ''}://127.0.0.1:{self.port}/ledger.test"

    def to(self, recipient: str) -> list[Mail]:
        return [mail for mail in self.mails if mail.recipients == [recipient]]

    def behave(self) -> None:
        self.said, self.once = dict(SAYS), {}

    # --- aiosmtpd's hooks -------------------------------------------------------------------------

    def _authenticate(self, _server: SMTP, _session: Session, _envelope: Envelope,
                      _mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login.decode(), data.password.decode()) == self.login,
                          handled=False)

    def _next(self, step: str) -> str:
        return self.once[step].pop(0) if self.once.get(step) else self.said[step]

    @staticmethod
    async def _say(server: SMTP, reply: str) -> str:
        if reply == HANG:
            await asyncio.sleep(ENOUGH)
        if reply == CLOSE:
            server.transport.close()
        return reply

    async def handle_MAIL(self, server: SMTP, _session: Session, envelope: Envelope, address: str,
                          _options: list[str]) -> str:
        envelope.mail_from = address
        return await self._say(server, self._next("mail"))

    async def handle_RCPT(self, server: SMTP, _session: Session, envelope: Envelope, address: str,
                          _options: list[str]) -> str:
        reply = self._next("rcpt")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return await self._say(server, reply)

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:
        reply = self._next("data")
        await asyncio.sleep(random.uniform(*self.think))
        if reply == DROP:
            return await self._say(server, CLOSE)
        self.mails.append(Mail(time.time(), envelope.mail_from, list(envelope.rcpt_tos),
                               envelope.content, reply))
        return await self._say(server, reply)
