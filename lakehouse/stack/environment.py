"""The environment that points every client at a local stack. Pure: computes variables, sets none."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.stack.ports import ADDRESS
from lakehouse.stack.state import REGION, STATE_BUCKET, TABLE_BUCKET, Stack

_CATALOG = "default"
_CATALOG_PREFIX = f"PYICEBERG_CATALOG__{_CATALOG.upper()}__"
_CONFLICTING = (
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)


def catalog_properties(stack: Stack) -> dict[str, str]:
    """PyIceberg's properties of the stack's catalog, for `load_catalog(name, **properties)`."""
    return {
        "type": "rest",
        "uri": stack.catalog_uri,
        "oauth2-server-uri": f"{stack.catalog_uri}/v1/oauth/tokens",
        "credential": f"{stack.access_key}:{stack.secret_key}",
        "warehouse": TABLE_BUCKET,
        "s3.endpoint": stack.s3_endpoint,
        "s3.access-key-id": stack.access_key,
        "s3.secret-access-key": stack.secret_key,
        "s3.region": REGION,
    }


def stack_environment(stack: Stack, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for S3 clients, PyIceberg and lakehouse. `env`, if given, is what `NO_PROXY` is taken over from."""
    no_proxy = {name: _with_loopback((env or {}).get(name, "")) for name in ("NO_PROXY", "no_proxy")}
    return {
        "AWS_ACCESS_KEY_ID": stack.access_key,
        "AWS_SECRET_ACCESS_KEY": stack.secret_key,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": stack.s3_endpoint,
        **{_variable(name): value for name, value in catalog_properties(stack).items()},
        "LAKEHOUSE_CATALOG": _CATALOG,
        "LAKEHOUSE_STATE": f"s3://{STATE_BUCKET}/lakehouse",
        **no_proxy,
    }


def conflicting_variables(stack: Stack, env: Mapping[str, str]) -> list[str]:
    """Variables of `env` that would mix another account or catalog into the stack's, sorted; they must be unset."""
    ours = stack_environment(stack)
    return sorted(
        name for name in env if name not in ours and (name in _CONFLICTING or name.upper().startswith(_CATALOG_PREFIX))
    )


def _variable(name: str) -> str:
    """PyIceberg reads `__` as a dot and `_` as a dash."""
    return _CATALOG_PREFIX + name.upper().replace(".", "__").replace("-", "_")


def _with_loopback(hosts: str) -> str:
    """Loopback added to a list of hosts that a proxy of the environment must not be asked for."""
    known = [host.strip() for host in hosts.split(",") if host.strip()]
    return ",".join(known if ADDRESS in known or "*" in known else [*known, ADDRESS])
