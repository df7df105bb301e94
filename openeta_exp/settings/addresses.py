"""Addresses of outside services: no secret may be part of one, because settings are recorded."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator

from openeta_exp.wire.explain import is_secret


def _check_no_secret(address: str) -> str:
    try:
        parts = urlsplit(address)
        user_info = parts.username is not None or parts.password is not None
    except ValueError as error:
        raise ValueError(f"is not an address: {error}") from error
    if user_info:
        raise ValueError("holds a user name or password; put secrets into the environment")
    secrets = [name for name, _ in parse_qsl(parts.query) if is_secret(name)]
    if secrets:
        raise ValueError(f"holds {', '.join(secrets)}; put secrets into the environment")
    return address


def _check_http(address: str) -> str:
    parts = urlsplit(_check_no_secret(address))
    try:
        reachable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ValueError(f"is not an address: {error}") from error
    if not reachable or any(each.isspace() for each in address):
        raise ValueError("is not an HTTP address; write http://HOST:PORT/PATH or https://...")
    return address


HttpAddress = Annotated[str, AfterValidator(_check_http)]
"""`http(s)://host[:port][/path]` without user, password or key."""

ServerAddress = Annotated[str, AfterValidator(_check_no_secret)]
"""Any address or file path without user, password or key."""
