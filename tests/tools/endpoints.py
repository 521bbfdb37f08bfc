"""Places to which no request gets: nobody there, nobody who answers, nobody to be trusted. And one
where it does: a server with TLS that would rather speak HTTP/2."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from .clock import Clock

DAY = 86400
BACKLOG_FILL = 4


class Endpoints:
    """`urls` has one of each kind; `ca_files` the certificate that a client trusts there."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.urls: dict[str, str] = {"dns": "http://counterfoil.invalid"}
        self.ca_files: dict[str, str] = {}
        self._sockets: list[socket.socket] = []
        self.urls["refused"] = f"http://127.0.0.1:{self._port(None)}"
        self.urls["mute"] = f"http://127.0.0.1:{self._full()}"
        self.urls["tls-mute"] = f"https://127.0.0.1:{self._port(64)}"
        self.urls["tls-stranger"] = f"https://127.0.0.1:{self._tls('stranger', days_old=0)}"
        self.urls["tls-expired"] = f"https://127.0.0.1:{self._tls('expired', days_old=3)}"
        self.ca_files["tls-expired"] = str(directory / "expired.pem")
        self.urls["tls"] = f"https://127.0.0.1:{self._tls('good', days_old=0)}"
        self.ca_files["tls"] = str(directory / "good.pem")
        self.spoken: list[tuple[str | None, bytes]] = []     # protocol agreed on, first bytes

    def _port(self, backlog: int | None) -> int:
        """A port of ours; with a backlog the kernel takes connections there, and nobody reads."""
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        if backlog is not None:
            one.listen(backlog)
        self._sockets.append(one)
        return one.getsockname()[1]

    def _full(self) -> int:
        """Nobody accepts, and there is no room to wait: connecting takes for ever."""
        port = self._port(0)
        for _ in range(BACKLOG_FILL):
            filler = socket.socket()
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(("127.0.0.1", port))
            self._sockets.append(filler)
        return port

    def _certificate(self, name: str, days_old: int) -> None:
        clock = Clock(self.directory, -days_old * DAY)
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                   "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                   "-keyout", str(self.directory / f"{name}.key"),
                   "-out", str(self.directory / f"{name}.pem")]
        subprocess.run([*clock.command, *command], check=True, stderr=subprocess.DEVNULL)

    def _tls(self, name: str, days_old: int) -> int:
        """Shakes hands, if the client likes the certificate, and answers one request."""
        self._certificate(name, days_old)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.load_cert_chain(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        port = self._port(64)
        threading.Thread(target=self._accept, args=(self._sockets[-1], context),
                         daemon=True).start()
        return port

    def _accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._shake_hands, args=(client, context),
                                 daemon=True).start()

    def _shake_hands(self, client: socket.socket, context: ssl.SSLContext) -> None:
        with suppress(OSError), client:
            client.settimeout(5)
            with context.wrap_socket(client, server_side=True) as peer:
                self.spoken.append((peer.selected_alpn_protocol(), peer.recv(64)))
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
