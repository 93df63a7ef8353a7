"""What to allow so that a refused call passes, in the words of whoever allows it: IAM, SQL, the catalog's owner. Pure.

The actions behind S3 Tables' Iceberg endpoint are those of AWS's own page, "Accessing tables using the Amazon S3 Tables
Iceberg REST endpoint"; those of Glue are the API operations themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LIST, GET, PUT, DELETE = "s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"

_S3_ACTIONS = {
    "HeadObject": GET,
    "GetObject": GET,
    "ListObjectsV2": LIST,
    "HeadBucket": LIST,
    "DeleteObject": DELETE,
    "DeleteObjects": DELETE,
    "PutObject": PUT,
    "CreateMultipartUpload": PUT,
    "UploadPart": PUT,
    "CompleteMultipartUpload": PUT,
}


class CatalogCall(StrEnum):
    """What the loader asks of a catalog."""

    LOAD = "load a table"
    NAMESPACE = "find or make a namespace"
    CREATE = "create a table"
    COMMIT = "commit to a table"
    DROP = "drop a table"


_GLUE = {
    CatalogCall.LOAD: "glue:GetTable",
    CatalogCall.NAMESPACE: "glue:GetDatabase, glue:CreateDatabase",
    CatalogCall.CREATE: "glue:CreateTable",
    CatalogCall.COMMIT: "glue:UpdateTable",
    CatalogCall.DROP: "glue:DeleteTable",
}
_S3_TABLES = {
    CatalogCall.LOAD: "s3tables:GetTableMetadataLocation, s3tables:GetTableData",
    CatalogCall.NAMESPACE: "s3tables:GetNamespace, s3tables:CreateNamespace",
    CatalogCall.CREATE: "s3tables:CreateTable, s3tables:PutTableData",
    CatalogCall.COMMIT: "s3tables:UpdateTableMetadataLocation, s3tables:PutTableData, s3tables:GetTableData",
    CatalogCall.DROP: "s3tables:DeleteTable",
}
_SQL = {
    CatalogCall.LOAD: "SELECT ON iceberg_tables",
    CatalogCall.NAMESPACE: "SELECT, INSERT ON iceberg_namespace_properties",
    CatalogCall.CREATE: "INSERT ON iceberg_tables",
    CatalogCall.COMMIT: "UPDATE ON iceberg_tables",
    CatalogCall.DROP: "DELETE ON iceberg_tables",
}


@dataclass(frozen=True, slots=True)
class CatalogAccount:
    """Who grants rights on a catalog: `service` is glue, s3tables, sql or rest."""

    service: str
    region: str = ""
    warehouse: str = ""


def on_objects(action: str, uri: str, *, region: str = "") -> str:
    """IAM's action and resource for the objects below a folder, or for the listing of it; empty for a local one."""
    if not uri.startswith("s3://"):
        return ""
    bucket, _, folder = uri.removeprefix("s3://").partition("/")
    folder = folder if not folder or folder.endswith("/") else folder + "/"
    arn = f"arn:{_partition(region)}:s3:::{bucket}"
    if action == LIST:
        return f"{action} on {arn}" + (f' with s3:prefix "{folder}*"' if folder else "")
    return f"{action} on {arn}/{folder}*"


def for_operation(operation: str, uri: str, *, region: str = "") -> str:
    """What an S3 operation needs below a folder; empty for an operation of another service."""
    action = _S3_ACTIONS.get(operation, "")
    grant = on_objects(action, uri, region=region) if action else ""
    if grant and operation == "HeadObject":
        grant += f", and {LIST} on the whole bucket: else S3 refuses keys that are not there"
    return grant


def in_catalog(call: CatalogCall, account: CatalogAccount, *, namespace: str, table: str = "*") -> str:
    """What the catalog's owner grants for one call."""
    if account.service == "glue":
        at = f"arn:{_partition(account.region)}:glue:{account.region or '<region>'}:<account>"
        tables = "" if call is CatalogCall.NAMESPACE else f", {at}:table/{namespace}/{table}"
        return f"{_GLUE[call]} on {at}:catalog, {at}:database/{namespace}{tables}"
    if account.service == "s3tables":
        return f"{_S3_TABLES[call]} on {account.warehouse}, {account.warehouse}/table/*"
    if account.service == "sql":
        return f"GRANT {_SQL[call]} to the user of the catalog's URI"
    return f"in the catalog: the right to {call} in namespace {namespace}"


def _partition(region: str) -> str:
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
