"""Whether the catalog and the storage of its tables let us do what a load does.

Making, committing and dropping is tried on a table of our own in the ledger's namespace. On a declared table nothing is
changed: its storage gets a file that no metadata names and loses it again, and its catalog a commit that cannot hold
and would change nothing if it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, ForbiddenError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import NestedField, StringType

from lakehouse import naming
from lakehouse.catalog import ensure_namespace, load_table, refused_operation, translated
from lakehouse.doctor.check import Check, missing, ok, skipped, warning
from lakehouse.doctor.grants import (
    DELETE,
    GET,
    LIST,
    PUT,
    CatalogAccount,
    CatalogCall,
    for_operation,
    in_catalog,
    on_objects,
)
from lakehouse.errors import Conflict, LakehouseError, RetryLater
from lakehouse.maintain.listing import list_folder

_NO_TABLE = UUID(int=0)
_AGAIN = "allow what is to grant, then lakehouse doctor"


def account_of(catalog: Catalog) -> CatalogAccount:
    """Who grants rights on an open catalog."""
    known = catalog.properties
    region = str(known.get("rest.signing-region") or known.get("glue.region") or known.get("client.region") or "")
    warehouse = str(known.get("warehouse", ""))
    module = type(catalog).__module__
    signing = str(known.get("rest.signing-name", "")) if isinstance(catalog, RestCatalog) else ""
    if signing in ("glue", "s3tables"):
        return CatalogAccount(signing, region, warehouse)
    service = "glue" if module.endswith(".glue") else "sql" if module.endswith(".sql") else "rest"
    return CatalogAccount(service, region, warehouse)


def check_table(catalog: Catalog, table: str, *, new_id: str, state: str | None) -> Iterator[Check]:
    """Load a declared table, and try its storage. `state` is where the state lies, if that is known."""
    namespace, _, name = table.rpartition(".")
    account = account_of(catalog)
    found: list[Table | None] = []
    refused = _refusal(
        lambda: found.append(load_table(catalog, table)),
        "table load",
        table,
        grant=in_catalog(CatalogCall.LOAD, account, namespace=namespace, table=name),
        files=account.warehouse,
    )
    if refused:
        yield refused
        yield skipped("table files", table, "the table could not be loaded")
        return
    target = found[0]
    if target is None:
        yield ok("table load", table, "does not exist yet: the first load makes it")
        return
    yield ok("table load", table, f"format version {target.metadata.format_version}, {target.location()}")
    if state is not None and (state.rstrip("/") + "/").startswith(target.location().rstrip("/") + "/"):
        yield missing(
            "state place", state, f"lies inside the table {table}", next="export LAKEHOUSE_STATE=s3://<bucket>/<folder>"
        )
    yield from _check_files(target, new_id=new_id, region=account.region)
    if isinstance(catalog, RestCatalog):
        yield _check_commit(catalog, target, table, account)


def check_catalog(catalog: Catalog, name: str, *, ops_namespace: str, new_id: str) -> Iterator[Check]:
    """Make a table of our own, commit to it, write to its storage, and drop it."""
    account = account_of(catalog)
    probe = f"{ops_namespace}.{naming.doctor_table(new_id)}"

    def grant(call: CatalogCall) -> str:
        return in_catalog(call, account, namespace=ops_namespace, table=naming.doctor_table("*"))

    def attempt(act: Callable[[], object], step: str, call: CatalogCall) -> Check | None:
        return _refusal(act, step, probe, grant=grant(call), files=account.warehouse)

    refused = attempt(lambda: ensure_namespace(catalog, ops_namespace), "namespace", CatalogCall.NAMESPACE)
    yield refused or ok("namespace", ops_namespace)
    if not refused:
        refused = attempt(lambda: _make(catalog, probe), "table create", CatalogCall.CREATE)
        yield refused or ok("table create", probe)
    if refused:
        yield skipped("table commit", name, "no table of our own could be made")
        return
    made: list[Table | None] = []
    try:
        refused = attempt(lambda: made.append(load_table(catalog, probe)), "table load", CatalogCall.LOAD)
        if refused or made[0] is None:
            yield refused or missing("table load", probe, "the catalog does not show what it has just made")
        else:
            table = made[0]
            refused = attempt(lambda: _commit(catalog, table), "table commit", CatalogCall.COMMIT)
            yield refused or ok("table commit", probe)
            yield from _check_files(table, new_id=new_id, region=account.region)
    finally:
        refused = attempt(lambda: _drop(catalog, probe), "table drop", CatalogCall.DROP)
    if refused:
        yield warning(
            "table drop",
            probe,
            f"{refused.detail}; loads drop no table, but this one stays",
            grant=refused.grant,
            next=f"drop table {probe}",
        )
    else:
        yield ok("table drop", probe)


def _make(catalog: Catalog, name: str) -> None:
    schema = Schema(NestedField(field_id=1, name="probe", field_type=StringType(), required=False))
    catalog.create_table(name, schema=schema, partition_spec=UNPARTITIONED_PARTITION_SPEC)


def _drop(catalog: Catalog, name: str) -> None:
    """With its files where that is allowed; some catalogs keep that right apart."""
    try:
        catalog.purge_table(name)
    except (ForbiddenError, BadRequestError):
        catalog.drop_table(name)


def _commit(catalog: Catalog, table: Table) -> None:
    requirement = AssertTableUUID(uuid=table.metadata.table_uuid)
    catalog.commit_table(table, (requirement,), (SetPropertiesUpdate(updates={"lakehouse.doctor": "1"}),))


def _check_commit(catalog: Catalog, target: Table, table: str, account: CatalogAccount) -> Check:
    """A REST catalog looks at who asks before it looks at what is asserted."""
    namespace, _, name = table.rpartition(".")
    malformed: list[BadRequestError] = []

    def ask() -> None:
        try:
            catalog.commit_table(target, (AssertTableUUID(uuid=_NO_TABLE),), ())
        except CommitFailedException:
            return
        except BadRequestError as error:
            malformed.append(error)

    grant = in_catalog(CatalogCall.COMMIT, account, namespace=namespace, table=name)
    refused = _refusal(ask, "table commit", table, grant=grant)
    if malformed:
        return skipped("table commit", table, "the catalog takes no commit that changes nothing")
    return refused or ok("table commit", table, "refused for what it asserted, as it should be; nothing was changed")


def _check_files(table: Table, *, new_id: str, region: str) -> Iterator[Check]:
    """Write, read, list and remove one file of ours at the table's location, with the catalog's credentials."""
    folder, data = (place.rstrip("/") + "/" for place in (table.location(), table.location_provider().data_path))
    folder = folder if data.startswith(folder) else data
    uri = data + naming.doctor_file(new_id)
    nowhere = uri.removesuffix(".parquet") + "/"  # a listing of the whole table would take long

    def write() -> None:
        with table.io.new_output(uri).create(overwrite=True) as file:
            file.write(b"1")

    def read() -> None:
        with table.io.new_input(uri).open() as file:
            file.read()

    steps: tuple[tuple[str, str, Callable[[], object]], ...] = (
        ("files write", PUT, write),
        ("files read", GET, read),
        ("files list", LIST, lambda: [*list_folder(table.io, nowhere)]),
        ("files delete", DELETE, lambda: table.io.delete(uri)),
    )
    for number, (step, action, act) in enumerate(steps):
        refused = _refusal(act, step, folder, grant=on_objects(action, folder, region=region), files=folder)
        yield refused or ok(step, folder)
        if refused and number == 0:
            for later, _, _ in steps[1:]:
                yield skipped(later, folder, "no file could be written")
            return
        if refused and action == DELETE:
            yield warning("files probe", uri, "it stays there, and nothing reads it: orphans removes it")


def _refusal(act: Callable[[], object], name: str, subject: str, *, grant: str, files: str = "") -> Check | None:
    """None if it went well. `grant` is what is missing if the call is refused without naming what it needs; `files` is
    the folder that calls of S3 are about."""
    try:
        with translated(subject):
            act()
    except Conflict:
        return None  # it was allowed, and somebody else was quicker
    except LakehouseError as error:
        operation = refused_operation(error.__cause__ or error)
        if operation is None:
            code = 3 if isinstance(error, RetryLater) else 2
            return missing(name, subject, error.message, next=error.next or "lakehouse doctor", exit_code=code)
        if operation:
            grant = for_operation(operation, files) or grant
        detail = "not allowed" + (f": {operation}" if operation else "")
        return missing(name, subject, detail, grant=grant, next=_AGAIN)
    return None
