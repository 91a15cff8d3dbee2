"""Tokens for SASL OAUTHBEARER from an OpenID Connect provider, as in librdkafka."""

import math
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import ClassVar

from drctl.kafka.deadline import Deadline
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.strict_json import read_json

_PREFIX = "sasl.oauthbearer."
_KNOWN = {"method", "client.id", "client.secret", "scope", "extensions", "token.endpoint.url"}
_USABLE_SHARE = 0.8
"""A token is used for this share of its lifetime only, because clocks differ."""
_DEFAULT_LIFETIME_S = 60.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TokenSource:
    """A token endpoint with client credentials.

    Attributes:
        extensions: SASL extensions, sent to brokers with the token.
    """

    endpoint: str
    client: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)
    ca_file: str = ""
    ca_text: str = field(default="", repr=False)

    mechanism: ClassVar[str] = "OAUTHBEARER"
    _tokens: ClassVar["dict[TokenSource, tuple[str, float]]"] = {}
    _lock: ClassVar[Lock] = Lock()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "TokenSource":
        """Create it from a client's properties.

        Raises:
            ConfigError: the method or a property is not supported.
        """
        given = {
            name.removeprefix(_PREFIX): value
            for name, value in properties.items()
            if name.startswith(_PREFIX)
        }
        if given.get("method", "default").lower() != "oidc" or given.keys() - _KNOWN:
            odd = ", ".join(sorted(given.keys() - _KNOWN)) or "method"
            raise ConfigError(
                f"drctl's own requests support {_PREFIX}method oidc with a client secret"
                f" only: {odd}",
                f"set only {', '.join(f'{_PREFIX}{name}' for name in sorted(_KNOWN))}",
            )
        wanted = ("token.endpoint.url", "client.id", "client.secret")
        endpoint, client, secret = (given.get(name, "") for name in wanted)
        if not (endpoint and client and secret):
            raise ConfigError(
                f"{_PREFIX}method oidc needs {_PREFIX}token.endpoint.url, client.id and"
                " client.secret",
                "set them in the cluster's properties",
            )
        pairs = (pair.partition("=") for pair in given.get("extensions", "").split(",") if pair)
        return cls(
            endpoint,
            client,
            secret,
            given.get("scope", ""),
            {name.strip(): value.strip() for name, _, value in pairs},
            properties.get("https.ca.location", ""),
            properties.get("https.ca.pem", ""),
        )

    def token(self, deadline: Deadline) -> str:
        """A valid token, cached until it is about to expire.

        Raises:
            ConfigError: the provider rejects the client.
            Unreachable: the provider does not answer.
        """
        with self._lock:
            token, until = self._tokens.get(self, ("", 0.0))
            if monotonic() >= until:
                began = monotonic()
                token, life_s = self._request(deadline)
                self._tokens[self] = token, began + _USABLE_SHARE * life_s
            return token

    def _request(self, deadline: Deadline) -> tuple[str, float]:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.parse import urlencode
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """Refuses them: they would send the credentials to another host."""

            def redirect_request(self, *_: object) -> None:
                return None

        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        credentials = b64encode(f"{self.client}:{self.secret}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}", "Accept": "application/json"}
        try:
            request = Request(self.endpoint, urlencode(form).encode(), headers)
            context = ssl.create_default_context(
                cafile=self.ca_file or None, cadata=self.ca_text or None
            )
            opener = build_opener(HTTPSHandler(context=context), NoRedirects())
            with opener.open(request, timeout=max(0.1, deadline.remaining)) as answer:
                return read_token(answer.read(_MOST_BYTES))
        except HTTPError as refused:
            raise ConfigError(
                f"no token from {self.endpoint}: HTTP {refused.code}",
                f"check {_PREFIX}client.id, client.secret and scope",
            ) from None
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "reason", None) or error.__class__.__name__
            raise Unreachable(f"no token from {self.endpoint}: {reason}") from None


def read_token(data: bytes) -> tuple[str, float]:
    """The token in a provider's response, and its lifetime in seconds.

    Raises:
        ValueError, KeyError, TypeError: there is none, or the lifetime is not a finite number.
    """
    found = read_json(data)
    token, life_s = found["access_token"], float(found.get("expires_in", _DEFAULT_LIFETIME_S))
    if not isinstance(token, str) or not token or not 0 <= life_s < math.inf:
        raise ValueError("no token")
    return token, life_s
