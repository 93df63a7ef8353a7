"""Reads and writes state objects: batch manifests, checkpoints and rejects below LAKEHOUSE_STATE.

Owns the proof that what is read is what was published: every object is compared with the SHA-256 that refers to it,
and versions must follow each other without a gap. Never overwrites or deletes an object, and never touches the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from lakehouse import naming
from lakehouse.bookmark import REATTACH, chain_after, fold
from lakehouse.checkpoint import CheckpointIndex, Part, decode_checkpoint, encode_index
from lakehouse.errors import ConfigurationError, DataError
from lakehouse.faults import fault_point
from lakehouse.manifest import decode_manifest, encode_manifest
from lakehouse.model import Bookmark, ChainLink, Checkpoint, Manifest, Reference, Seen, SeenObject
from lakehouse.seen_parts import PART_OBJECTS, StoredParts, rewritten

_Value = TypeVar("_Value")


class StateStore(Protocol):
    """What this module needs of `lakehouse.storage.Storage`; keys are relative to LAKEHOUSE_STATE."""

    def read(self, key: str) -> bytes | None:
        """The object's bytes, None if there is none."""

    def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """As `read`, for several keys at once, in their order."""

    def create(self, key: str, data: bytes) -> bool:
        """Write with If-None-Match; False if the object exists."""

    def uri(self, key: str) -> str:
        """The full address of a key."""


def attempt_folder(*, catalog: str, table: str, table_uuid: str, context: str, batch_id: str, attempt_id: str) -> str:
    """The folder of one attempt's manifest, checkpoint and rejects; no two attempts share it."""
    root = naming.incarnation_root(catalog, table, table_uuid)
    return root + naming.batch_folder(context, batch_id, attempt_id)


def write_manifest(storage: StateStore, manifest: Manifest, *, folder: str) -> Reference:
    """Write the manifest into its attempt's folder. Raises as `write_object` does."""
    return write_object(storage, folder + naming.manifest_name(), encode_manifest(manifest))


def write_checkpoint(
    storage: StateStore, checkpoint: Checkpoint, *, folder: str, most: int = PART_OBJECTS
) -> Reference:
    """Write the checkpoint beside the manifest that will refer to it.

    What `load_bookmark` read lies in parts already: those that nothing has changed are referred to where they are, and
    only the others are written, a few in memory at once. `most` objects go into one part. Raises as `write_object` and
    `read_blob` do.
    """

    def write_part(name: str, data: bytes) -> Reference:
        written = write_object(storage, folder + name, data)
        fault_point("after_part")
        return written

    def parts_of(kind: str, items: Mapping[str, SeenObject]) -> tuple[Part, ...]:
        seen = Seen.of(items)
        store = seen.store if isinstance(seen.store, StoredParts) else _stored(storage, ())
        return rewritten(
            store,
            seen.changes,
            lambda number, data: write_part(f"{kind}-{number:05}.parquet", data),
            most=most,
        )

    index = CheckpointIndex(
        seen=parts_of("seen", checkpoint.seen),
        rulings=parts_of("rulings", checkpoint.rulings),
        paused=parts_of("paused", checkpoint.paused),
    )
    return write_object(storage, folder + "checkpoint.parquet", encode_index(index))


def write_rejects(storage: StateStore, data: bytes, *, folder: str) -> Reference:
    """Write the batch's rejects, a Parquet file, beside its manifest. Raises as `write_object` does."""
    return write_object(storage, folder + "rejects.parquet", data)


def write_graves(storage: StateStore, data: bytes, *, folder: str) -> Reference:
    """Write the batch's hard-deleted keys, a Parquet file, beside its manifest. Raises as `write_object` does."""
    return write_object(storage, folder + naming.graves_name(), data)


def read_blobs(storage: StateStore, references: Sequence[Reference]) -> list[bytes]:
    """As `read_blob`, for several at once, in their order."""
    found = storage.read_many([_key(storage, reference) for reference in references])
    return [_verified(reference, data) for reference, data in zip(references, found, strict=True)]


def write_object(storage: StateStore, key: str, data: bytes) -> Reference:
    """Create an object that is never changed again, and say where it is and what its digest is.

    A PUT whose answer was lost may have landed before the client repeats it: the same bytes are a success. Other bytes
    raise DataError, and what is there stays.
    """
    if not storage.create(key, data) and storage.read(key) != data:
        raise DataError(f"another state object is already there: uri={storage.uri(key)}")
    return Reference(storage.uri(key), naming.sha256(data))


def read_manifest(storage: StateStore, reference: Reference) -> Manifest:
    """The manifest behind a reference. Raises DataError when it is missing, altered or unreadable."""
    data = storage.read(_key(storage, reference))
    return _decoded(reference, data, decode_manifest)


def read_blob(storage: StateStore, reference: Reference) -> bytes:
    """The verified bytes behind a reference, for example of rejects. Raises DataError when missing or altered."""
    return _verified(reference, storage.read(_key(storage, reference)))


def load_bookmark(storage: StateStore, head: Reference | None) -> Bookmark:
    """The bookmark that stands on the manifest `head`; version 0 if there is none.

    Reads the head, then its chain in parallel, then the index of one checkpoint; its parts are read when they are asked
    for. Raises DataError naming the object that is missing or altered, or the version that is not there.
    """
    if head is None:
        return Bookmark()
    newest = read_manifest(storage, head)
    history = [(newest, head)]
    if newest.checkpoint is None:
        history += _read_chain(storage, newest.chain, below=newest.bookmark_version)
    oldest, reference = history[-1]
    if oldest.checkpoint is None:
        if oldest.bookmark_version != 1:
            raise DataError(
                f"the chain of manifests ends without a checkpoint: head={head.uri} version={oldest.bookmark_version}"
            )
        return fold(Bookmark(), reversed(history))
    checkpoint = read_checkpoint(storage, oldest.checkpoint)
    start = Bookmark(
        version=oldest.bookmark_version,
        head=reference,
        chain=chain_after(oldest, reference),
        seen=Seen.of(checkpoint.seen),
        graves=oldest.graves,
        settled_date=oldest.settled_date,
        held=oldest.held,
        accepted=oldest.accepted,
        rulings=checkpoint.rulings,
        paused=Seen.of(checkpoint.paused),
        source_uri=oldest.source_uri,
    )
    return fold(start, reversed(history[:-1]))


def read_checkpoint(storage: StateStore, reference: Reference) -> Checkpoint:
    """The checkpoint behind a reference, of any format; of the newest the index alone is read now, its parts when they
    are asked for. Raises as `read_manifest` does."""
    found = _decoded(reference, storage.read(_key(storage, reference)), decode_checkpoint)
    if isinstance(found, Checkpoint):
        return found
    return Checkpoint(
        seen=Seen(store=_stored(storage, found.seen)),
        rulings={item.object.uri: item for item in _stored(storage, found.rulings).stream()},
        paused=Seen(store=_stored(storage, found.paused)),
    )


def walk(storage: StateStore, head: Reference | None, *, above: int = 0) -> Iterator[tuple[Manifest, Reference]]:
    """Every manifest from `head` back to the first whose version is above `above`, newest first, across checkpoints.

    At most one chain (100 manifests) is in memory. Behind a bookmark that was attached again comes the version that
    the table stood at then, or nothing. Raises DataError as `load_bookmark` does.
    """
    if head is None:
        return
    manifest = read_manifest(storage, head)
    if manifest.bookmark_version > above:
        yield manifest, head
    while manifest.bookmark_version > above + 1:
        links = [link for link in manifest.chain if link.version > above]
        below = manifest.bookmark_version
        if manifest.kind == REATTACH:
            if not links:
                return
            below = links[0].version + 1
        older = _read_chain(storage, links, below=below)
        if not older:
            raise DataError(
                f"the chain of manifests ends too early: head={head.uri} "
                f"missing_version={manifest.bookmark_version - 1}"
            )
        yield from older
        manifest = older[-1][0]


def find_version(storage: StateStore, head: Reference | None, version: int) -> tuple[Manifest, Reference] | None:
    """The manifest of one version behind `head`, None if the chain has none. Costs one read for each hundred versions
    between. Raises DataError as `read_manifest` does."""
    while head is not None:
        manifest = read_manifest(storage, head)
        if manifest.bookmark_version <= version:
            return (manifest, head) if manifest.bookmark_version == version else None
        exact = next((link for link in manifest.chain if link.version == version), None)
        oldest = manifest.chain[-1] if manifest.chain else None
        link = exact or oldest
        head = link.manifest if link else None
    return None


def attempts_after(storage: StateStore, head: Reference, version: int) -> set[str]:
    """The attempt ids of the manifest chain from `head` back to `version`."""
    return {manifest.attempt_id for manifest, _ in walk(storage, head, above=version - 1)}


def _stored(storage: StateStore, parts: tuple[Part, ...]) -> StoredParts:
    return StoredParts(parts, partial(read_blobs, storage))


def _read_chain(storage: StateStore, links: Sequence[ChainLink], *, below: int) -> list[tuple[Manifest, Reference]]:
    """The manifests of the links, newest first; the first one must be the version right below `below`."""
    contents = storage.read_many([_key(storage, link.manifest) for link in links])
    history = []
    for position, (link, data) in enumerate(zip(links, contents, strict=True)):
        expected = below - 1 - position
        manifest = _decoded(link.manifest, data, decode_manifest)
        if not expected == link.version == manifest.bookmark_version:
            raise DataError(
                f"bookmark versions are not consecutive: uri={link.manifest.uri} version={manifest.bookmark_version} "
                f"listed_as={link.version} expected={expected}"
            )
        history.append((manifest, link.manifest))
    return history


def _key(storage: StateStore, reference: Reference) -> str:
    root = storage.uri("")
    if not reference.uri.startswith(root):
        raise ConfigurationError(
            f"a state object lies outside LAKEHOUSE_STATE={root}: uri={reference.uri}",
            next="point LAKEHOUSE_STATE at the folder that the table was loaded with",
        )
    return reference.uri[len(root) :]


def _verified(reference: Reference, data: bytes | None) -> bytes:
    if data is None:
        raise DataError(
            f"a published state object is missing: uri={reference.uri} sha256={reference.sha256}; nothing was changed",
            next=f"restore {reference.uri} from the bucket's versions or a backup",
        )
    found = naming.sha256(data)
    if found != reference.sha256:
        raise DataError(
            f"a published state object was altered: uri={reference.uri} sha256={found} expected={reference.sha256}; "
            "nothing was changed",
            next=f"restore {reference.uri} from the bucket's versions or a backup",
        )
    return data


def _decoded(reference: Reference, data: bytes | None, decode: Callable[[bytes], _Value]) -> _Value:
    verified = _verified(reference, data)
    try:
        return decode(verified)
    except DataError as error:
        raise DataError(f"{error.message} uri={reference.uri}") from error
