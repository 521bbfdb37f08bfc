"""The payments provider as a process: HTTP/1.1 on raw streams, so that it can misbehave.

    python3 -m tests.tools.provider_server DIRECTORY [PORT]

Prints `listening PORT`, then takes orders as JSON lines on stdin and answers each with one JSON
line. Ends with its stdin. What it did stands in DIRECTORY/journal before the client hears of it;
started again on the same directory it remembers its charges and keys.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import random
import socket
import struct
import sys
import time
from dataclasses import asdict, fields
from http import HTTPStatus
from pathlib import Path
from typing import Any

from . import journal
from .provider_faults import Fault, Faults, http_date
from .provider_keys import Answer, Keys, Profile, Request, Verdict, is_signed

HEAD_LIMIT = 1024 * 1024
BODY_KEPT = 64 * 1024
CHUNK = b"x" * (1024 * 1024)
BOMB_MEMBER = 16 * len(CHUNK)       # of a bomb, unpacked


@functools.cache
def bomb_member() -> bytes:
    return gzip.compress(bytes(BOMB_MEMBER))


class Done(Exception):
    """The connection is finished with."""


class Provider:
    """The business: charges, keys, and the record of both."""

    def __init__(self, directory: Path) -> None:
        self.profile = Profile()
        self.keys = Keys(self.profile)
        self.faults = Faults()
        self.think: tuple[float, float] = (0, 0)
        self.random = random.Random(0)
        self.requests = 0
        self.charges = 0
        self._remember(directory / "journal")
        self.journal = journal.Journal(directory / "journal")

    def _remember(self, path: Path) -> None:
        seen: dict[int, Request] = {}
        for record in journal.read(path):
            if record["kind"] == "request":
                request = Request(record["n"], 0, 0, record["method"], record["path"],
                                  [tuple(h) for h in record["headers"]],
                                  digest=record["digest"])
                seen[request.n] = request
                self.requests = max(self.requests, request.n)
            elif record["kind"] == "charge":
                self.charges += 1
            elif record["kind"] == "kept":
                self.keys.keep(seen[record["n"]], Answer(**record["answer"]), record["since"])

    def arrived(self, request: Request) -> None:
        self.journal.write("request", n=request.n, t=time.time(), connection=request.connection,
                           nth=request.nth, method=request.method, path=request.path,
                           key=self.keys.key(request), headers=request.headers,
                           digest=request.digest, length=len(request.body),
                           body=request.body[:BODY_KEPT].decode("latin-1"))

    def decided(self, request: Request, answer: Answer | None, applied: bool, replayed: bool,
                fault: Fault | None) -> None:
        """The last word before the client hears anything."""
        self.journal.write("decided", n=request.n, t=time.time(), applied=applied,
                           replayed=replayed, status=answer.status if answer else None,
                           fault=fault.kind if fault else None)

    async def execute(self, request: Request, fault: Fault | None) -> tuple[Answer, bool, bool]:
        """The answer of a provider that does its work; whether it charged; whether it replayed.
        It goes on when the client has gone, as a provider does."""
        if self.profile.authorization \
                and request.header("Authorization") != self.profile.authorization:
            return Answer(401, body='{"error":"authorization"}'), False, False
        if self.profile.signing_secret \
                and not is_signed(request, self.profile.signing_secret, time.time()):
            return Answer(401, body='{"error":"signature"}'), False, False
        verdict, kept = self.keys.begin(request, time.time())
        if verdict is Verdict.REPLAY:
            return Answer(kept.status, [*kept.headers, ("Idempotent-Replayed", "true")],
                          kept.body), False, True
        if verdict is Verdict.IN_PROGRESS:
            return Answer(self.profile.in_progress, body='{"error":"in progress"}'), False, False
        if verdict is Verdict.MISMATCH:
            return Answer(self.profile.mismatch, body='{"error":"key mismatch"}'), False, False
        since = time.time()
        await asyncio.sleep(self.random.uniform(*self.think) + (fault.delay if fault else 0))
        return self._charge(request, since, fault), True, False

    def _charge(self, request: Request, since: float, fault: Fault | None) -> Answer:
        self.charges += 1
        key = self.keys.key(request)
        name = f"ch_{self.charges:06d}"
        self.journal.write("charge", n=request.n, t=time.time(), id=name, key=key,
                           digest=request.digest)
        made = Answer(self.profile.success,
                      body=json.dumps({"id": name, "object": "charge", "key": key,
                                       "status": "succeeded"}))
        kept = fault.answer() if fault and fault.kind == "status" and fault.store else made
        if self.keys.finish(request, kept):
            self.journal.write("kept", n=request.n, since=since, answer=asdict(kept))
        return made

    async def refuse(self, request: Request, fault: Fault) -> Answer:
        """A fault before applying: nothing is done with the key, unless the fault is to be kept."""
        await asyncio.sleep(fault.delay)
        answer = fault.answer()
        if fault.store and fault.kind == "status":
            self.keys.keep(request, answer, time.time())
            self.journal.write("kept", n=request.n, since=time.time(), answer=asdict(answer))
        return answer


class Connection:
    """One client: reads requests, answers them or does worse."""

    def __init__(self, provider: Provider, number: int, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self.provider = provider
        self.number = number
        self.reader = reader
        self.writer = writer
        self.served = 0

    async def serve(self) -> None:
        try:
            while True:
                await self._one()
        except (Done, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError,
                ValueError):
            pass
        finally:
            self.writer.close()

    async def _one(self) -> None:
        request = await self._read_head()
        provider = self.provider
        fault = provider.faults.take(request, provider.keys.key(request), time.time())
        if not (fault and fault.early):
            await self._read_body(request)
        provider.arrived(request)
        applied = replayed = False
        if fault and not fault.apply:
            answer = await provider.refuse(request, fault)
        else:
            answer, applied, replayed = await provider.execute(request, fault)
            if fault and fault.kind == "status":
                answer = fault.answer()
        silent = fault is not None and fault.kind in ("hang", "reset", "close", "garbage")
        provider.decided(request, None if silent else answer, applied, replayed, fault)
        if fault:
            await asyncio.sleep(fault.delay_answer)
            await self._misbehave(request, fault, answer)
        else:
            await self._answer(answer)

    # --- reading ----------------------------------------------------------------------------------

    async def _read_head(self) -> Request:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (l.partition(":") for l in lines)]
        self.served += 1
        self.provider.requests += 1
        return Request(self.provider.requests, self.number, self.served, method, path, headers)

    async def _read_body(self, request: Request) -> None:
        if (request.header("Expect") or "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if (request.header("Transfer-Encoding") or "").lower() == "chunked":
            request.take_body(await self._read_chunks())
        else:
            length = int(request.header("Content-Length") or 0)
            request.take_body(await self.reader.readexactly(length))

    async def _read_chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            body += (await self.reader.readexactly(size + 2))[:-2]
            if size == 0:
                return body

    # --- answering --------------------------------------------------------------------------------

    @staticmethod
    def _head(answer: Answer, *framing: tuple[str, str]) -> bytes:
        try:
            phrase = HTTPStatus(answer.status).phrase
        except ValueError:
            phrase = "Unknown"
        headers = [("Date", http_date()), ("Content-Type", "application/json"), *framing,
                   *answer.headers]
        lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{n}: {v}" for n, v in headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def _length(self, answer: Answer) -> tuple[str, str]:
        return "Content-Length", str(len(answer.body.encode()))

    async def _answer(self, answer: Answer) -> None:
        self.writer.write(self._head(answer, self._length(answer)) + answer.body.encode())
        await self.writer.drain()

    async def _misbehave(self, request: Request, fault: Fault, answer: Answer) -> None:
        match fault.kind:
            case "pass":
                await self._answer(answer)
            case "status":
                await self._answer(answer)
                if fault.early:
                    raise Done
            case "hang":
                await self.reader.read()
                raise Done
            case "reset":
                self._reset()
                raise Done
            case "close":
                raise Done
            case "cut_headers":
                self.writer.write(self._head(answer, self._length(answer))[:-20])
                raise Done
            case "cut_body":
                self.writer.write(self._head(answer, self._length(answer))
                                  + answer.body.encode()[:len(answer.body) // 2])
                raise Done
            case "garbage":
                self.writer.write(bytes(range(256)) + b"\r\n\r\n" + bytes(range(256)))
                raise Done
            case "slow_body":
                await self._slow(fault, answer)
            case "huge_body":
                await self._huge(request, fault, answer)
            case "bomb":
                await self._bomb(request, fault, answer)

    def _reset(self) -> None:
        """RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def _slow(self, fault: Fault, answer: Answer) -> None:
        self.writer.write(self._head(answer, self._length(answer)))
        for byte in answer.body.encode():
            await self.writer.drain()
            await asyncio.sleep(fault.interval)
            self.writer.write(bytes([byte]))
        await self.writer.drain()

    async def _huge(self, request: Request, fault: Fault, answer: Answer) -> None:
        framing = ("Transfer-Encoding", "chunked") if fault.chunked \
            else ("Content-Length", str(fault.size))
        self.writer.write(self._head(answer, framing))
        left = fault.size
        try:
            while left:
                part = CHUNK[:left]
                self.writer.write(b"%x\r\n%s\r\n" % (len(part), part) if fault.chunked else part)
                await self.writer.drain()
                left -= len(part)
            if fault.chunked:
                self.writer.write(b"0\r\n\r\n")
        finally:
            self.provider.journal.write("sent", n=request.n, bytes=fault.size - left)


    async def _bomb(self, request: Request, fault: Fault, answer: Answer) -> None:
        """Members of a compressed file may follow one another."""
        member = bomb_member()
        count, sent = fault.size // BOMB_MEMBER, 0
        self.writer.write(self._head(answer, ("Content-Encoding", "gzip"),
                                     ("Content-Length", str(count * len(member)))))
        try:
            while sent < count:
                self.writer.write(member)
                await self.writer.drain()
                sent += 1
        finally:
            self.provider.journal.write("sent", n=request.n, bytes=sent * len(member))


class Server:
    """The listening port, and the orders from stdin."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.connections = 0
        self.port = 0
        self.server: asyncio.Server | None = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await Connection(self.provider, self.connections, reader, writer).serve()

    async def open(self, port: int) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=HEAD_LIMIT,
                                                 backlog=1000)
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """New connections are refused; those that exist go on."""
        if self.server:
            self.server.close()
            self.server = None

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        what = order.pop("do")
        provider = self.provider
        if what == "fault":
            return {"id": provider.faults.order(time.time(), **order).id}
        if what == "clear":
            provider.faults.clear(order.get("id"))
        elif what == "met":
            return {"met": provider.faults.met(order["id"])}
        elif what == "configure":
            self._configure(order)
        elif what == "forget":
            provider.keys.forget()
        elif what == "close":
            self.close()
        elif what == "open":
            await self.open(self.port)
        else:
            raise ValueError(f"no such order: {what}")
        return {}

    def _configure(self, order: dict[str, Any]) -> None:
        known = {f.name for f in fields(Profile)}
        for name, value in order.items():
            if name == "think":
                self.provider.think = tuple(value)
            elif name in known:
                setattr(self.provider.profile, name, value)
            else:
                raise ValueError(f"no such setting: {name}")


async def run(directory: Path, port: int) -> None:
    server = Server(Provider(directory))
    await server.open(port)
    print("listening", server.port, flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        try:
            result: dict[str, Any] = await server.obey(json.loads(line))
        except (ValueError, TypeError, KeyError, OSError) as error:
            result = {"error": str(error)}
        print(json.dumps(result), flush=True)


def main() -> None:
    directory = Path(sys.argv[1])
    asyncio.run(run(directory, int(sys.argv[2]) if len(sys.argv) > 2 else 0))


if __name__ == "__main__":
    main()
