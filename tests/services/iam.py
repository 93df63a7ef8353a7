"""A policy of IAM, as far as those in docs/iam go: what a call needs, whether it is allowed, and what nobody needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.services.faulty_http import Request
from tests.services.glue import operation
from tests.services.s3_door import Asked

ACCOUNT = "123456789012"


@dataclass(frozen=True)
class Call:
    """One call: allowed only if the policy allows the action on every one of its resources. `prefix` is of a listing;
    where there is none, a condition on it does not hold."""

    action: str
    resources: tuple[str, ...]
    prefix: str | None = None


def of_s3(asked: Asked) -> Call:
    prefix = asked.key if asked.action == "s3:ListBucket" else None
    return Call(asked.action, (f"arn:aws:s3:::{asked.resource}",), prefix)


def listing_of(asked: Asked) -> Call:
    """What S3 asks for before it says that a key is not there: to list the bucket, no prefix being known."""
    return Call("s3:ListBucket", (f"arn:aws:s3:::{asked.bucket}",))


def of_glue(request: Request) -> Call:
    """The resources that AWS looks at: a table's database and the catalog, too."""
    name, body = operation(request), json.loads(request.body or b"{}")
    at = f"arn:aws:glue:us-east-1:{ACCOUNT}:"
    if name == "GetSecretValue":
        return Call(
            "secretsmanager:GetSecretValue",
            (f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:{body['SecretId']}-AbCdEf",),
        )
    database = body.get("DatabaseName") or body.get("DatabaseInput", {}).get("Name") or body.get("Name")
    table = body.get("TableInput", {}).get("Name") or (body.get("Name") if "DatabaseName" in body else None)
    assert database, (name, body)
    tables = (f"{at}table/{database}/{table}",) if table else ()
    return Call(f"glue:{name}", (f"{at}catalog", f"{at}database/{database}", *tables))


@dataclass
class Policy:
    """`used` are the (statement, action) and (statement, resource) pairs that allowed something."""

    statements: list[dict[str, Any]]
    used: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, names: Mapping[str, str]) -> Policy:
        """A policy with its capital words replaced. Fails for one that is left."""
        text = path.read_text()
        for word in sorted(names, key=len, reverse=True):
            text = text.replace(word, names[word])
        left = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b|\b(?:REGION|ACCOUNT|NAMESPACE|SECRET)\b", text)
        assert not left, left
        statements = json.loads(text)["Statement"]
        assert all(one["Effect"] == "Allow" and set(one) <= _KNOWN for one in statements)
        return cls(statements)

    def allows(self, call: Call) -> bool:
        found = [self._allowing(call, resource) for resource in call.resources]
        if not all(found):
            return False
        self.used |= {pair for one in found for pair in one}
        return True

    def unused(self) -> set[tuple[str, str]]:
        """What nobody needed, by statement."""
        return {(one["Sid"], item) for one in self.statements for item in _items(one)} - self.used

    def _allowing(self, call: Call, resource: str) -> list[tuple[str, str]]:
        for one in self.statements:
            wanted = one.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
            fits = wanted is None or any(fnmatchcase(call.prefix or "", p) for p in _listed(wanted))
            known = [pattern for pattern in _listed(one["Resource"]) if fnmatchcase(resource, pattern)]
            if call.action in _listed(one["Action"]) and known and fits:
                return [(one["Sid"], call.action), (one["Sid"], known[0])]
        return []


_KNOWN = {"Sid", "Effect", "Action", "Resource", "Condition"}


def _items(statement: Mapping[str, Any]) -> Iterator[str]:
    yield from _listed(statement["Action"])
    yield from _listed(statement["Resource"])


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
