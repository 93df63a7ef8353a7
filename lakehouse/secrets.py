"""Values that a configuration names and AWS Secrets Manager holds: `{secret: aws:<name or ARN>#<key>}`.

They are fetched when they are needed, with boto3's chain, kept nowhere, and masked wherever they would be said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lakehouse.errors import ConfigurationError, LakehouseError, Unavailable
from lakehouse.redaction import remember
from lakehouse.storage.credentials import SESSION_LOCK, find_access

FORM = "{secret: aws:<name or ARN>#<key>}"
_NAMED = re.compile(r"aws:(?P<name>[^#\s{}]+)(?:#(?P<key>[^\s{}]+))?")
_WRITTEN = re.compile(r"\{\s*secret:\s*(?P<named>[^\s{}]+)\s*\}")
_ARN = re.compile(r"arn:[\w-]+:secretsmanager:(?P<region>[\w-]+):")
_WAIT = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})


@dataclass(frozen=True, slots=True)
class SecretName:
    """`name` is what Secrets Manager calls it, or its ARN; `key` is a field of its JSON, None for the whole text."""

    name: str
    key: str | None

    @property
    def region(self) -> str | None:
        """Where an ARN says that it is."""
        found = _ARN.match(self.name)
        return found["region"] if found else None

    def __str__(self) -> str:
        return f"aws:{self.name}" + (f"#{self.key}" if self.key else "")


def secret_named(value: object) -> SecretName | None:
    """The secret that a value names, as a mapping (YAML) or as a text (a variable); None for another value.

    Raises ConfigurationError for a secret that is named in another way.
    """
    if isinstance(value, Mapping) and list(value) == ["secret"]:
        named = str(value["secret"])
    elif isinstance(value, str) and (written := _WRITTEN.fullmatch(value.strip())):
        named = written["named"]
    else:
        return None
    found = _NAMED.fullmatch(named)
    if found is None:
        raise ConfigurationError(f"a secret is named in a way that is not known: {named}; write {FORM}")
    return SecretName(found["name"], found["key"])


def fetch_secret(secret: SecretName, env: Mapping[str, str]) -> str:
    """The value. Raises ConfigurationError if it is not there, may not be read or has no such key, Unavailable if the
    service does not answer."""
    access = find_access(env, subject=str(secret))
    with SESSION_LOCK:
        client: Any = access.session.client("secretsmanager", region_name=secret.region or access.region, config=_WAIT)
    try:
        text = client.get_secret_value(SecretId=secret.name).get("SecretString")
    except ClientError as error:
        raise _explained(secret, str(error.response.get("Error", {}).get("Code", ""))) from None
    except BotoCoreError as error:
        raise Unavailable(f"Secrets Manager does not answer: secret={secret} reason={type(error).__name__}") from None
    if not isinstance(text, str):
        raise ConfigurationError(f"the secret holds bytes and no text: secret={secret}")
    remember([text])
    return text if secret.key is None else _field(secret, text)


def _field(secret: SecretName, text: str) -> str:
    try:
        fields = json.loads(text)
    except ValueError:  # whose text would show the secret
        fields = None
    value = fields.get(secret.key) if isinstance(fields, dict) else None
    if not isinstance(value, (str, int)):
        raise ConfigurationError(f"the secret is no JSON object with that key: secret={secret}")
    remember([str(value)])
    return str(value)


def _explained(secret: SecretName, code: str) -> LakehouseError:
    if code == "ResourceNotFoundException":
        return ConfigurationError(
            f"the secret does not exist: secret={secret}", next=f"aws secretsmanager create-secret --name {secret.name}"
        )
    if re.search(r"AccessDenied|Unrecognized|Invalid|Expired|DecryptionFailure", code):
        return ConfigurationError(
            f"Secrets Manager refuses us: secret={secret} code={code}",
            next=f"allow secretsmanager:GetSecretValue on {secret.name}, and kms:Decrypt on its key if it has one",
        )
    return Unavailable(f"Secrets Manager answers with an error: secret={secret} code={code}")
