"""Whether the servers of a local stack answer. Only reads: lists buckets and namespaces."""

from __future__ import annotations

import json
import urllib.request
from urllib.parse import quote, urlencode

from lakehouse.stack.state import LANDING_BUCKET, REGION, STATE_BUCKET, TABLE_BUCKET, Stack

_TIMEOUT_SECONDS = 5
_UNSET = (None, None, None, None)
"""A variable of botocore that is read from nowhere."""


def unready(stack: Stack) -> str | None:
    """Why the stack cannot be used yet, in one line; None once buckets list and the catalog names its namespaces."""
    return _s3_unready(stack) or _catalog_unready(stack)


def _s3_unready(stack: Stack) -> str | None:
    # Slow to import, and `stack down` and `stack env` do without.
    import boto3
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    # Neither a profile nor a file of the caller: both are about other accounts, and can be wrong.
    nobodys = {"profile": _UNSET, "config_file": _UNSET, "credentials_file": _UNSET}
    client = boto3.session.Session(botocore_session=botocore.session.Session(nobodys)).client(
        "s3",
        endpoint_url=stack.s3_endpoint,
        aws_access_key_id=stack.access_key,
        aws_secret_access_key=stack.secret_key,
        region_name=REGION,
        config=Config(
            connect_timeout=_TIMEOUT_SECONDS,
            read_timeout=_TIMEOUT_SECONDS,
            retries={"total_max_attempts": 1},
            proxies={},
        ),
    )
    try:
        for bucket in (LANDING_BUCKET, STATE_BUCKET):
            client.list_objects_v2(Bucket=bucket, MaxKeys=1)
    except (BotoCoreError, ClientError) as error:
        return f"s3: {error}"
    finally:
        client.close()
    return None


def _catalog_unready(stack: Stack) -> str | None:
    """`list_namespaces` as an Iceberg REST client does it: token, configuration, namespaces."""
    form = {
        "grant_type": "client_credentials",
        "client_id": stack.access_key,
        "client_secret": stack.secret_key,
        "scope": "catalog",
    }
    try:
        token = _request(stack, "/v1/oauth/tokens", data=urlencode(form).encode())["access_token"]
        config = _request(stack, f"/v1/config?warehouse={TABLE_BUCKET}", token=str(token))
        overrides = config["overrides"]
        prefix = overrides["prefix"] if isinstance(overrides, dict) else TABLE_BUCKET
        _request(stack, f"/v1/{quote(str(prefix), safe='')}/namespaces", token=str(token))
    except (OSError, ValueError, KeyError) as error:
        return f"catalog: {type(error).__name__} {error}"
    return None


def _request(stack: Stack, path: str, *, token: str = "", data: bytes | None = None) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(stack.catalog_uri + path, data=data, headers=headers)
    # A proxy of the environment cannot reach this machine's loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
        loaded = json.load(answer)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path} answers {type(loaded).__name__}")
    return loaded
