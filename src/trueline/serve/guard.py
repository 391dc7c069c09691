"""Who may do what: bearer tokens with scopes, and what a browser on another site must not reach.

A token file has one token a line, its scopes before it: ``predict,learn 3f9c…``. Scopes: predict (predict and read),
learn, admin (all). A page on another site can make a browser send requests here: what a browser marks as coming from
one, a foreign Origin and a Host that was not allowed are refused, with tokens and without.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import UsageError

SCOPES = ("predict", "learn", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANY_ADDRESS = "*"  # in a list of hosts: every address, but no name that is not listed
LARGEST_HEAD = 32 * 1024
MOST_HEADERS = 100
_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z][0-9A-Za-z._-]*)(?::[0-9]{1,5})?")
_FOREIGN = "the request comes from a page of another site; call the service from its own page or from a program"
_STRANGE = "the Host header names no host of this service; call it by 127.0.0.1 or localhost, or start it with --allow-host NAME"


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
    """Checks the head of a request; None is a pass, otherwise (status, message).

    Nothing of a request is read, and no handler sees it, before it has passed.
    """

    def __init__(self, tokens: list[tuple[bytes, frozenset[str]]] | None, hosts: Iterable[str] = LOOPBACK) -> None:
        self.tokens = tokens
        self.hosts = frozenset(host.lower() for host in hosts)
        self._known: set[bytes] = set()  # Host headers that were found to be among them

    def _allowed(self, host: bytes) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].decode().strip("[]").lower()
        # A page of another site can lead a name of its own here, but no address.
        allowed = name in self.hosts or (ANY_ADDRESS in self.hosts and _is_address(name))
        if allowed and len(self._known) < 64:
            self._known.add(host)
        return allowed

    def refuse(
        self, headers: list[tuple[bytes, bytes]], scope: str | None, page: bool = False
    ) -> tuple[int, str] | None:
        """The refusal of a request that needs a scope (None: no token); pages of other sites may link to the ``page``."""
        host = given = origin = None
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                if host is not None:
                    return 400, "the request has two Host headers"
                host = value
            elif name == b"authorization":
                if given is not None:
                    return 400, "the request has two Authorization headers"
                given = value
            elif name == b"origin":
                if origin not in (None, value):
                    return 400, "the request has two Origin headers"
                origin = value
            elif name == b"sec-fetch-site":
                if value not in (b"same-origin", b"none") and not page:
                    return 403, _FOREIGN
            elif name == b"content-encoding":
                if value != b"identity":
                    return 415, "compressed bodies are not accepted; send plain JSON"
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                return 501, "the only Transfer-Encoding that is read is chunked; send the body plain"
        if size > LARGEST_HEAD or len(headers) > MOST_HEADERS:
            return 431, f"the head has more than {MOST_HEADERS} headers or {LARGEST_HEAD} bytes"
        if host is None or (host not in self._known and not self._allowed(host)):
            return 403, _STRANGE
        if origin and not _same(origin, host):
            return 403, _FOREIGN
        if self.tokens is None or scope is None:
            return None
        kind, _, token = (given or b"").partition(b" ")
        allowed: frozenset[str] = frozenset()
        for known, scopes in self.tokens:  # every token is compared, whichever matches
            if hmac.compare_digest(known, token.strip()):
                allowed = scopes
        if kind.lower() != b"bearer" or not allowed:
            return 401, "give a bearer token in the Authorization header"
        if scope not in allowed:
            return 403, f"this token does not have the scope {scope!r}"
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: bytes, host: bytes) -> bool:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower() == host.decode("latin-1").lower()
    except ValueError:
        return False
