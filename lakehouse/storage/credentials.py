"""Who we are to S3, and where it is: boto3's credential chain, region and endpoint. Never logs or prints a secret."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader
from botocore.session import Session, get_session
from obstore.auth.boto3 import Boto3CredentialProvider

from lakehouse.errors import ConfigurationError
from lakehouse.redaction import remember

if TYPE_CHECKING:
    from obstore.store import S3Credential

# obstore keeps what it got for this long, less five minutes. botocore hands out credentials that are valid for ten
# minutes or more, so obstore's default of thirty could sign with expired ones.
_KEEP = timedelta(minutes=10)

_WHO = "aws sts get-caller-identity"

SESSION_LOCK = threading.Lock()
"""Held while a session is used to make something: boto3's sessions are not for two threads at once."""
_SESSIONS: dict[tuple[tuple[str, str | None, str | None], ...], boto3.Session] = {}


class CredentialProvider(Boto3CredentialProvider):
    """boto3's chain for obstore; what it gives, refreshed or not, is masked in every message."""

    def __call__(self) -> S3Credential:
        given = super().__call__()
        remember(filter(None, (given.get("secret_access_key"), given.get("token"))))
        return given


@dataclass(frozen=True, slots=True)
class Access:
    """Everything a client needs to reach S3. `endpoint` None is what boto3 resolves."""

    session: boto3.Session
    provider: CredentialProvider
    region: str
    endpoint: str | None


def without_password(endpoint: str) -> str:
    """The endpoint for messages."""
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def find_access(env: Mapping[str, str], *, subject: str) -> Access:
    """Resolve credentials, region and endpoint; `subject` is the URI that they are for.

    Raises ConfigurationError where boto3's chain finds no credentials or cannot get them, and for a wrong endpoint.
    """
    endpoint = _endpoint(env)  # first: the chain may fail for it, and would be blamed
    try:
        session = _shared_session(env)
        provider = CredentialProvider(session, ttl=_KEEP)
        provider()
    except ValueError:
        raise ConfigurationError(
            f"no AWS credentials found: uri={subject}; set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            next=_WHO,
        ) from None
    except BotoCoreError as error:
        # The text and the chain are dropped: a credential process may print what it should not.
        raise ConfigurationError(
            f"cannot get AWS credentials: uri={subject} reason={type(error).__name__}", next=_WHO
        ) from None
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or session.region_name or "us-east-1"
    return Access(session, provider, region, endpoint)


def _endpoint(env: Mapping[str, str]) -> str | None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if value := env.get(name):
            if not _is_address(value):
                raise ConfigurationError(
                    f"the endpoint is no http or https address: {name}={value}",
                    next=f"export {name}=https://<host>:<port>, or unset {name}",
                )
            return value.rstrip("/")
    return None


def _is_address(text: str) -> bool:
    """obstore does not refuse a port that is none, it panics."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _shared_session(env: Mapping[str, str]) -> boto3.Session:
    """One session for all storages with the same credentials: its first client costs a tenth of a second."""
    names = sorted(name for name in {*env, *os.environ} if name.startswith("AWS_"))
    asked = tuple((name, env.get(name), os.environ.get(name)) for name in names)
    with SESSION_LOCK:
        if asked not in _SESSIONS:
            _SESSIONS.clear()
            _SESSIONS[asked] = _session(env)
        return _SESSIONS[asked]


def _session(env: Mapping[str, str]) -> boto3.Session:
    """boto3's own chain, except for what `env` says otherwise than this process's environment."""
    if (key := env.get("AWS_ACCESS_KEY_ID")) and _differs(env, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        if not (secret := env.get("AWS_SECRET_ACCESS_KEY")):
            raise ConfigurationError(
                "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY", next="export AWS_SECRET_ACCESS_KEY=…"
            )
        return boto3.Session(
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=env.get("AWS_SESSION_TOKEN"),
            botocore_session=_quick_session(),
        )
    if (profile := env.get("AWS_PROFILE")) and _differs(env, "AWS_PROFILE"):
        return boto3.Session(profile_name=profile, botocore_session=_quick_session())
    return boto3.Session(botocore_session=_quick_session())


def _quick_session() -> Session:
    session = get_session()
    found = session.get_config_variable("data_path")
    paths = [Path(path).expanduser() for path in found.split(os.pathsep)] if found else []
    session.register_component("data_loader", _Models(extra_search_paths=[str(path) for path in paths]))
    return session


class _Models(Loader):
    """Takes every folder of botocore's data for a service. It would look into each of its four hundred for a model
    before it loads the one that is asked for, and that takes longer than a load with nothing to do should."""

    def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002
        folders = [Path(path) for path in self.search_paths]
        return sorted({found.name for folder in folders if folder.is_dir() for found in folder.iterdir()})


def _differs(env: Mapping[str, str], *names: str) -> bool:
    return any(env.get(name) != os.environ.get(name) for name in names)
