"""What the endpoints ask for, by OpenAI's rules: files come and go, batches are made, looked at, cancelled.

Everything belongs to the key that made it. What belongs to somebody else is not there.
"""

import asyncio
import errno
import secrets
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.batch.blobs import Blobs, BlobWriter
from gateway.batch.jobs import Batch, File, Purpose, Status
from gateway.batch.store import Catalogue
from gateway.batch.wishes import MAX_TTL_S, form_ttl, metadata_of, one_of, output_ttl
from gateway.errors import BatchesUnavailable, DiskFull, InvalidRequest, NoSuchBatch, NoSuchFile

FILENAME = 255
"""Characters of a file name that are kept."""

RETRY_AFTER = 5.0
"""Seconds to say while the database or the disk cannot be used."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a system says of a disk that is full, or of a quota that is used up."""

CANCELLABLE = frozenset({Status.VALIDATING, Status.IN_PROGRESS})
FIELDS = ("input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after")


@dataclass(frozen=True, slots=True)
class Terms:
    """What is offered: endpoints, completion windows (name -> seconds), the life of files in seconds."""

    endpoints: Collection[str]
    windows: Mapping[str, int]
    ttl: int = MAX_TTL_S


@dataclass(frozen=True, slots=True)
class Desk:
    """Takes the wishes of one kind of client: owners of keys.

    `clock` gives seconds of the epoch, `wake` tells the runner that there is something to do. All of it may raise
    StoreUnavailable, or DiskFull and BatchesUnavailable for the folder. `owner` is the id of a key, None where there
    are no keys.
    """

    catalogue: Catalogue
    blobs: Blobs
    terms: Terms
    clock: Callable[[], float]
    wake: Callable[[], None]

    async def begin_upload(self) -> tuple[str, BlobWriter]:
        """The id of a new file and where its bytes go."""
        file_id = "file-" + secrets.token_hex(12)
        with storing():
            return file_id, await asyncio.to_thread(self.blobs.write, file_id)

    async def keep(
        self, file_id: str, writer: BlobWriter, fields: Mapping[str, str], filename: str, owner: str | None
    ) -> File:
        """Keeps an upload whose bytes are all written. Raises InvalidRequest.

        Args:
            file_id: of `begin_upload`.
            writer: of `begin_upload`.
            fields: the form's other fields: `purpose`, `expires_after[anchor]`, `expires_after[seconds]`.
            filename: as the client names it.
            owner: whose it is.
        """
        now = int(self.clock())
        if fields.get("purpose") != Purpose.BATCH:
            raise InvalidRequest("purpose must be 'batch': files serve nothing else here.", param="purpose")
        ttl = form_ttl(fields) or self.terms.ttl
        name = filename.replace("\0", "")[:FILENAME]
        file = File(file_id, owner, name, Purpose.BATCH, writer.size, now, now + ttl)
        try:
            with storing():
                await asyncio.to_thread(writer.commit)
            await self.catalogue.add_file(file)
        except BaseException:
            self.blobs.delete(file_id)
            raise
        return file

    async def file(self, file_id: str, owner: str | None) -> File:
        """A file. Raises NoSuchFile."""
        file = await self.catalogue.file(file_id, owner, int(self.clock()))
        if file is None:
            raise NoSuchFile(file_id)
        return file

    async def files(
        self, owner: str | None, *, purpose: str | None, after: str | None, limit: int, oldest_first: bool
    ) -> tuple[list[File], bool]:
        """A page of files, and whether there is more. Raises InvalidRequest."""
        now = int(self.clock())
        try:
            return await self.catalogue.files(
                owner, now, purpose=purpose, after=after, limit=limit, oldest_first=oldest_first
            )
        except KeyError:
            raise InvalidRequest(f"There is no file {after} to go on from.", param="after") from None

    async def content(self, file_id: str, owner: str | None) -> tuple[File, Path]:
        """A file and where its bytes are. Raises NoSuchFile, also where the bytes are not in this gateway's folder."""
        file = await self.file(file_id, owner)
        path = self.blobs.path(file.id)
        with storing():
            if not await asyncio.to_thread(path.exists):
                raise NoSuchFile(file_id)
        return file, path

    async def delete(self, file_id: str, owner: str | None) -> None:
        """Deletes a file. Raises NoSuchFile; InvalidRequest while a batch reads it."""
        file = await self.file(file_id, owner)
        if (reader := await self.catalogue.reads(file.id)) is not None:
            raise InvalidRequest(f"The file is the input of {reader}, which is not over.", param="file_id")
        await self.catalogue.delete_file(file.id)
        with storing():
            await asyncio.to_thread(self.blobs.delete, file.id)

    async def create(self, wish: Mapping[str, Any], owner: str | None) -> Batch:
        """Makes a batch. Raises InvalidRequest for a wish that no file could mend.

        Args:
            wish: the request's body.
            owner: whose it is.
        """
        if unknown := wish.keys() - set(FIELDS):
            raise InvalidRequest(f"Unknown field: {min(unknown)}.", param=min(unknown))
        endpoint = one_of(wish, "endpoint", self.terms.endpoints)
        window = one_of(wish, "completion_window", self.terms.windows)
        metadata, ttl = metadata_of(wish.get("metadata")), output_ttl(wish.get("output_expires_after"))
        file_id = wish.get("input_file_id")
        now = int(self.clock())
        file = await self.catalogue.file(file_id, owner, now) if isinstance(file_id, str) else None
        if file is None:
            raise InvalidRequest("input_file_id must be the id of a file that exists.", param="input_file_id")
        if file.purpose is not Purpose.BATCH:
            raise InvalidRequest("The input file must have been uploaded for 'batch'.", param="input_file_id")
        batch = Batch(
            seq=0,
            id=f"batch_{uuid.uuid4().hex}",
            owner=owner,
            endpoint=endpoint,
            input_file_id=file.id,
            completion_window=window,
            status=Status.VALIDATING,
            created_at=now,
            expires_at=now + self.terms.windows[window],
            output_ttl=ttl,
            metadata=metadata,
        )
        batch = await self.catalogue.add_batch(batch)
        self.wake()
        return batch

    async def batch(self, batch_id: str, owner: str | None) -> Batch:
        """A batch. Raises NoSuchBatch."""
        batch = await self.catalogue.batch(batch_id, owner)
        if batch is None:
            raise NoSuchBatch(batch_id)
        return batch

    async def batches(self, owner: str | None, *, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """A page of batches, newest first, and whether there is more. Raises InvalidRequest."""
        try:
            return await self.catalogue.batches(owner, after=after, limit=limit)
        except KeyError:
            raise InvalidRequest(f"There is no batch {after} to go on from.", param="after") from None

    async def cancel(self, batch_id: str, owner: str | None) -> Batch:
        """Cancels a batch; one that is being cancelled stays as it is. Raises NoSuchBatch, InvalidRequest."""
        batch = await self.batch(batch_id, owner)
        if batch.status in CANCELLABLE:
            await self.catalogue.cancel(batch.id, int(self.clock()))
            self.wake()
            batch = await self.batch(batch_id, owner)
        if batch.cancelling_at is None:
            raise InvalidRequest(f"Cannot cancel a batch with status '{batch.status}'.")
        return batch


@contextmanager
def storing() -> Iterator[None]:
    """Whoever writes an upload does so in here: what the disk says becomes DiskFull or BatchesUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            message = "There is no room for the file. Nothing of it was kept."
            raise DiskFull(message, retry_after=RETRY_AFTER) from error
        raise BatchesUnavailable("Files cannot be read or written now.", retry_after=RETRY_AFTER) from error
