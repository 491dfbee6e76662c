"""URLs and tokens of servers that speak WHIP and WHEP."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from rtclab.errors import FieldError

PLACEHOLDERS = {"{name}", "{sender}"}


def _url(text: str) -> str:
    """A URL of WHIP or WHEP, in which the placeholders stand for names."""
    example = "expected a URL such as `http://sfu:8080/whip/{name}`"
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise FieldError(f"cannot read `{text}` ({error}); {example}") from None
    if parts.scheme not in ("http", "https") or not host or not text.isprintable() or " " in text:
        raise FieldError(f"cannot read `{text}`; {example}")
    if unknown := sorted(set(re.findall(r"\{[^{}]*\}", text)) - PLACEHOLDERS):
        raise FieldError(f"unknown placeholder `{unknown[0]}`; expected `{{name}}` or `{{sender}}`")
    return text


Url = Annotated[str, AfterValidator(_url), Field(json_schema_extra={"pattern": "^https?://[^ ]+$"})]
# RFC 6750, section 2.1: the characters of a bearer token.
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9._~+/-]+=*$")]
