"""``trueline serve``: open the store, recover, listen."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json as jsons
import logging
import re
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ModelError, TruelineError, UsageError

MOST_CONNECTIONS = 4096
IDLE_SECONDS = 65
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def serve(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model file made by trueline stream, or by trueline fit to predict only.", show_default=False
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features", help="A schema.json: a model that starts from nothing; may be repeated.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The name of the model file's model; default: the file's name.", show_default=False),
    ] = None,
    store: Annotated[str, typer.Option(help="The database of the service.")] = "state.db",
    host: Annotated[
        str, typer.Option(help="The address to listen at; another than loopback needs --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="A name by which clients call the service, such as a proxy's; may be repeated.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", help="Lines 'scopes token'; scopes: predict, learn, admin.", show_default=False),
    ] = None,
    retention: Annotated[
        str, typer.Option(help="How long a prediction waits for its label: 90s, 10m, 12h, 7d.")
    ] = "7d",
    durability: Annotated[
        str, typer.Option(help="full: survives power loss; process: survives kill −9 only.")
    ] = "full",
    snapshot_every: Annotated[int, typer.Option("--snapshot-every", help="Labels between snapshots.", min=1)] = 20_000,
    restore: Annotated[
        str | None,
        typer.Option(help="Begin from a backup: copied to --store, which must not exist.", show_default=False),
    ] = None,
    tls_certificate: Annotated[
        str | None, typer.Option("--tls-certificate", help="A PEM file; with --tls-key, HTTPS.", show_default=False)
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="The certificate's key.", show_default=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="Say where the service listens as one JSON object.")] = False,
) -> int:
    """Serve models that learn: predict now, learn when the label arrives, lose nothing.

    A label that was acknowledged survives kill −9 and power loss, and is learned exactly once within the retention window.

    [bold]Examples[/bold]

    trueline serve --features schema.json

    trueline serve m.tl --store live.db --port 9000
    """
    from .guard import ANY_ADDRESS, LOOPBACK, read_tokens

    seconds = duration(retention)
    if durability not in ("full", "process"):
        raise UsageError(f"--durability is full or process, not {durability!r}", where="durability")
    tokens = read_tokens(token_file) if token_file is not None else None
    if host not in LOOPBACK and tokens is None:
        raise UsageError(
            f"listening at {host} needs --token-file: off loopback every request carries a token", where="token-file"
        )
    for named in allow_host or ():
        if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]*", named):
            raise UsageError(
                f"--allow-host is a name without port, such as models.example.org, not {named!r}", where="allow-host"
            )
    hosts = {*LOOPBACK, host, *(allow_host or ())} | (set() if host in LOOPBACK else {ANY_ADDRESS})
    if (tls_certificate is None) != (tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together", where="tls-key")
    if tls_certificate is not None:
        _checked(tls_certificate, tls_key)
    wanted = wanted_models(model, name, features or [])
    _free(host, port)
    import scipy.linalg  # noqa: F401 (it brings a BLAS of its own, which must be there to be limited)

    from ..threads import one_blas_thread
    from .store import Store

    opened = Store(store, durability, backup=restore)
    try:
        # Other threads of a BLAS would spin beside the loop and the disk, and a backup that goes to a machine with more
        # cores replays to the same bits.
        with one_blas_thread():
            code = asyncio.run(
                _run(
                    opened, wanted, seconds, snapshot_every, host, port, tokens, hosts, (tls_certificate, tls_key), json
                ),
                **_loop(),
            )  # fmt: skip
    except KeyboardInterrupt:
        return 0
    finally:
        opened.abandon()
    if code:
        raise TruelineError(
            "the store failed and the service stopped; every acknowledged label is safe: mend the disk, then start again",
            where="store",
        )
    return code


def _checked(certificate: str, key: str | None) -> None:
    """The files of TLS, read once before anything is opened."""
    for file in (certificate, key):
        if file is not None and not Path(file).is_file():
            raise UsageError(f"there is no file {file}", where="tls-certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):  # ssl's own errors are among them
        raise UsageError(
            f"{certificate} and {key} are not a certificate and its key, without a password, in PEM",
            where="tls-certificate",
        ) from None


def _free(host: str, port: int) -> None:
    """Refuse a place where the service cannot listen before a store is made; listening itself may still fail later."""
    free = False
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        places = []
    for family, kind, protocol, _, address in places:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen(1)
            free = True
        except OSError as error:
            # One of several addresses may belong to a family that is switched off here: the server passes over it.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise _cannot_listen(host, port) from None
    if not free:
        raise _cannot_listen(host, port)


def _cannot_listen(host: str, port: int) -> UsageError:
    return UsageError(
        f"cannot listen at {host}:{port}: the port is in use, or the address is not of this machine; choose another --port or --host",
        where="port",
    )


def _loop() -> dict[str, Any]:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return {}
    if sys.version_info >= (3, 12):
        return {"loop_factory": uvloop.new_event_loop}
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    return {}


def duration(text: str) -> float:
    """``7d`` in seconds.

    >>> duration("90s"), duration("12h")
    (90.0, 43200.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not found or float(found[1]) <= 0.0:
        raise UsageError(
            f"--retention is a number and a unit such as 90s, 10m, 12h or 7d, not {text!r}", where="retention"
        )
    return float(found[1]) * UNITS[found[2]]


def wanted_models(
    model: str | None, name: str | None, features: list[str]
) -> list[tuple[dict[str, Any], bytes | None]]:
    """The descriptions that the command line asks for."""
    from . import spec as specs

    made: list[tuple[dict[str, Any], bytes | None]] = []
    if model is not None:
        path = Path(model)
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"cannot read {model}: {error.strerror}; give the path of a saved model", where=model
            ) from None
        made.append(specs.from_file(raw, name or re.sub(r"[^A-Za-z0-9._-]", "-", path.stem), model))
    for file in features:
        try:
            given = jsons.loads(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}; give a schema.json", where="features") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{file} is not JSON; give a schema.json", where="features") from None
        made.append((specs.check(given), None))
    return made


async def _run(
    opened: Any,
    wanted: list[Any],
    retention: float,
    every: int,
    host: str,
    port: int,
    tokens: Any,
    hosts: set[str],
    tls: tuple[Any, Any],
    json: bool,
) -> int:
    """Recover, listen, and stop in order; 1 after a failure of the store."""
    import uvicorn

    from . import admin
    from .app import application
    from .events import Events
    from .guard import LARGEST_HEAD, Guard
    from .service import Service
    from .wire import Edge

    service = Service(opened, retention=retention, snapshot_every=every)
    await service.start()
    for spec, raw in wanted:
        if spec["name"] not in service.models:  # what the store holds goes on; a file is only a beginning
            await admin.create(service, spec, raw)
    events, guard = Events(service), Guard(tokens, hosts)
    edge = Edge(service)
    # Where there are tokens there are strangers, and h11 is the parser that limits the head of a request; httptools is
    # twice as fast, and takes a head of any size.
    parser = "auto" if tokens is None else "h11"
    config = uvicorn.Config(
        application(service, guard, events, edge), host=host, port=port, http=parser, ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, proxy_headers=False, date_header=False, timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=5, limit_concurrency=MOST_CONNECTIONS, h11_max_incomplete_event_size=LARGEST_HEAD,
        ssl_certfile=tls[0], ssl_keyfile=tls[1], backlog=2048,
    )  # fmt: skip
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn.error").propagate = False
    server = uvicorn.Server(config)
    service.on_failure = lambda: setattr(server, "should_exit", True)
    tasks = [
        asyncio.create_task(job)
        for job in (
            events.publish(),
            _sweep(service),
            _watch(server, events),
        )
    ]
    tasks.append(asyncio.create_task(_announce(server, service, json, "https" if tls[0] else "http")))
    with _once_more_unheard():
        try:
            await server.serve()
        except SystemExit:
            raise _cannot_listen(host, port) from None
        finally:
            await events.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await service.stop()
    return 1 if service.failed is not None else 0


@contextlib.contextmanager
def _once_more_unheard() -> Iterator[None]:
    """uvicorn raises a signal again when it has ended by it, which would kill the process before the last snapshot."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _watch(server: Any, events: Any) -> None:
    """End the event streams when the server is told to exit; it would wait for them otherwise."""
    while not server.should_exit:
        await asyncio.sleep(0.1)
    await events.stop()


async def _sweep(service: Any) -> None:
    from . import admin

    while True:
        await asyncio.sleep(min(30.0, max(0.25, service.retention / 20.0)))
        with contextlib.suppress(Exception):
            while await admin.sweep(service):
                pass


async def _announce(server: Any, service: Any, json: bool, scheme: str) -> None:
    """Say where the service listens, once it does."""
    while not server.started:
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    address = f"{scheme}://{'[' + host + ']' if ':' in host else host}:{port}"
    if json:
        print(
            jsons.dumps(
                {
                    "address": address,
                    "models": list(service.models),
                    "positions": {n: v.position for n, v in service.models.items()},
                }
            ),
            flush=True,
        )
    else:
        names = ", ".join(f"{n} at {v.position}" for n, v in service.models.items()) or "none yet"
        print(f"trueline serves {address}/ (models: {names}). Ctrl-C stops it.", file=sys.stderr, flush=True)
