"""SASL credentials as Java's Kafka client wants them: one line of JAAS configuration."""

from collections.abc import Mapping

from drctl.model.errors import ConfigError

_SECURITY = "org.apache.kafka.common.security"
_PASSWORD_MODULES = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_OAUTH = "sasl.oauthbearer."
# Java takes a line's end for the end of a quoted string.
_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\000"},
)


def sasl_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Java's properties for the mechanism and its credentials.

    Raises:
        ConfigError: a credential is missing, or the mechanism has no counterpart.
    """
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism in _PASSWORD_MODULES:
        translated = _password(mechanism, properties)
    elif mechanism == "OAUTHBEARER":
        translated = _oauthbearer(properties)
    elif mechanism == "GSSAPI":
        translated = _kerberos(properties)
    else:
        raise ConfigError(
            f"sasl.mechanism {mechanism} has no counterpart in Java's Kafka client",
            f"Possible: {', '.join([*_PASSWORD_MODULES, 'OAUTHBEARER', 'GSSAPI'])}.",
        )
    return {"sasl.mechanism": mechanism, **translated}


def _password(mechanism: str, properties: Mapping[str, str]) -> dict[str, str]:
    options = {
        "username": _required(properties, "sasl.username"),
        "password": _required(properties, "sasl.password"),
    }
    return {"sasl.jaas.config": _login(_PASSWORD_MODULES[mechanism], options)}


def _oauthbearer(properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get(f"{_OAUTH}method", "default").lower() != "oidc":
        raise ConfigError(
            f"{_OAUTH}method must be oidc: tokens made on the client have no counterpart in Java",
            f"Set {_OAUTH}method to oidc, with {_OAUTH}token.endpoint.url, client.id and "
            "client.secret.",
        )
    options = {
        "clientId": _required(properties, f"{_OAUTH}client.id"),
        "clientSecret": _required(properties, f"{_OAUTH}client.secret"),
    }
    if properties.get(f"{_OAUTH}scope"):
        options["scope"] = properties[f"{_OAUTH}scope"]
    for pair in filter(None, properties.get(f"{_OAUTH}extensions", "").split(",")):
        key, _, value = pair.partition("=")
        options[f"extension_{key.strip()}"] = value.strip()
    return {
        "sasl.jaas.config": _login(f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        f"{_OAUTH}token.endpoint.url": _required(properties, f"{_OAUTH}token.endpoint.url"),
    }


def _kerberos(properties: Mapping[str, str]) -> dict[str, str]:
    options = {"useTicketCache": "true"}
    if properties.get("sasl.kerberos.keytab"):
        options = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": properties["sasl.kerberos.keytab"],
            "principal": _required(properties, "sasl.kerberos.principal"),
        }
    elif properties.get("sasl.kerberos.principal"):
        options["principal"] = properties["sasl.kerberos.principal"]
    return {
        "sasl.jaas.config": _login("com.sun.security.auth.module.Krb5LoginModule", options),
        "sasl.kerberos.service.name": properties.get("sasl.kerberos.service.name", "kafka"),
    }


def _login(module: str, options: Mapping[str, str]) -> str:
    given = " ".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in options.items())
    return f"{module} required {given};"


def _required(properties: Mapping[str, str], key: str) -> str:
    value = properties.get(key)
    if not value:
        raise ConfigError(f"{key} is missing", f"Set {key} among the cluster's properties.")
    return value
