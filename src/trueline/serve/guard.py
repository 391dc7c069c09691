"""Who may do what: bearer tokens with scopes, and what a browser on another site must not reach.

A token file has one token a line, its scopes before it: ``predict,learn 3f9c…``. Scopes: predict (predict and read),
learn, admin (all). Without a token file the service answers only loopback names: a page on another site can make a
browser send requests here, so a foreign Origin or Host is refused.
"""

from __future__ import annotations

import hmac
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import UsageError

SCOPES = ("predict", "learn", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def read_tokens(path: str) -> list[tuple[bytes, frozenset[str]]]:
    """The tokens of a file, with their scopes."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"cannot read the token file {path}; give a text file of lines 'scopes token'", where="token-file"
        ) from None
    made = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = line.split()
        scopes = frozenset(parts[0].split(","))
        if len(parts) != 2 or not scopes <= set(SCOPES) or len(parts[1]) < 16 or not parts[1].isascii():
            raise UsageError(
                f"line {number} of the token file is not 'scopes token': scopes of {', '.join(SCOPES)}, a token of 16 or more characters",
                where="token-file",
            )
        made.append((parts[1].encode(), frozenset(SCOPES) if "admin" in scopes else scopes))
    if not made:
        raise UsageError("the token file holds no token", where="token-file")
    return made


class Guard:
    """Checks the headers of a request; None is a pass, otherwise (status, message)."""

    def __init__(self, tokens: list[tuple[bytes, frozenset[str]]] | None) -> None:
        self.tokens = tokens
        self._local: set[bytes] = set()  # Host headers that were found to be loopback names

    def _loopback(self, host: bytes) -> bool:
        found = _name(host) in LOOPBACK
        if found and len(self._local) < 64:
            self._local.add(host)
        return found

    def refuse(self, headers: list[tuple[bytes, bytes]], scope: str) -> tuple[int, str] | None:
        host = origin = given = b""
        for name, value in headers:
            if name == b"host":
                if host and host != value:
                    return 400, "the request has two Host headers"
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"authorization":
                given = value
            elif name == b"content-encoding" and value != b"identity":
                return 415, "compressed bodies are not accepted; send plain JSON"
        if origin and not _same(origin, host):
            return (
                403,
                "the request comes from a page of another site; call the service from its own page or from a program",
            )
        if self.tokens is None:
            if host and host not in self._local and not self._loopback(host):
                return (
                    403,
                    "the Host header is not a loopback name; use 127.0.0.1 or localhost, or start the service with --token-file",
                )
            return None
        kind, _, token = given.partition(b" ")
        allowed: frozenset[str] = frozenset()
        for known, scopes in self.tokens:  # every token is compared, whichever matches
            if hmac.compare_digest(known, token.strip()):
                allowed = scopes
        if kind.lower() != b"bearer" or not allowed:
            return 401, "give a bearer token in the Authorization header"
        if scope not in allowed:
            return 403, f"this token does not have the scope {scope!r}"
        return None


def _name(host: bytes) -> str:
    text = host.decode("latin-1")
    return text[1:].partition("]")[0] if text.startswith("[") else text.rpartition(":")[0] or text


def _same(origin: bytes, host: bytes) -> bool:
    try:
        return urlsplit(origin.decode("latin-1")).netloc == host.decode("latin-1")
    except ValueError:
        return False
