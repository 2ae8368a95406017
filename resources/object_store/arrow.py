"""The objects of Azure Blob Storage, reached through pyarrow's own file system.

Credentials are AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else the
environment's service principal, the machine's identity, the Azure CLI's login.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipelines.errors import SettingsError
from resources.clouds.bucket import Found, Passing, require_https
from resources.object_store.objects import refused, unusable

_PIECE = 1 << 20
_LONGEST = 300
_REFUSED = re.compile(
    r"\b(401|403)\b|forbidden|permission|denied|unauthenticated|credential|authenticat", re.IGNORECASE
)
_REMEDIES = {
    "az": "give credentials that may list, read, write and delete there, by AZURE_STORAGE_KEY or "
    "AZURE_STORAGE_SAS_TOKEN, `az login`, or the machine's identity",
}


def connect(address: str) -> ArrowObjects:
    """Return the objects at an address. Raise SettingsError, IndexStateError."""
    parts = urlsplit(address)
    try:
        files = _azure()
    except ImportError:
        raise unusable(
            address, f"this pyarrow is built without {parts.scheme}", "install pyarrow's own wheel from PyPI"
        ) from None
    except (OSError, ValueError) as error:
        raise refused(address, _said(error), _REMEDIES[parts.scheme]) from None
    return ArrowObjects(address, files, f"{parts.netloc}{parts.path}")


def _azure() -> Any:
    from pyarrow.fs import AzureFileSystem

    account = os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if not account:
        raise SettingsError("tables: az:// needs the name of the storage account; set AZURE_STORAGE_ACCOUNT")
    key, token = (os.environ.get(name) for name in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"))
    given = {"account_key": key} if key else {"sas_token": token} if token else {}
    emulated = urlsplit(require_https("AZURE_STORAGE_ENDPOINT", "tables"))
    if emulated.netloc:
        given |= {
            f"{kind}_storage_{part}": value
            for kind in ("blob", "dfs")
            for part, value in (("authority", emulated.netloc), ("scheme", emulated.scheme))
        }
    return AzureFileSystem(account, **given)


class ArrowObjects:
    """The objects below a root BUCKET/PREFIX; implements objects.Objects."""

    def __init__(self, address: str, files: Any, root: str) -> None:
        self.address, self._files, self._root = address, files, root.rstrip("/")

    def put(self, key: str, body: bytes | Path) -> None:
        with self._asking(), self._files.open_output_stream(f"{self._root}/{key}") as sink:
            if isinstance(body, Path):
                with open(body, "rb") as stream:
                    while piece := stream.read(_PIECE):
                        sink.write(piece)
            else:
                sink.write(body)

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        path = f"{self._root}/{key}"
        if end is not None:
            with self._asking(), self._files.open_input_file(path) as file:
                yield file.read_at(end - start, start)
            return
        with self._asking(), self._files.open_input_stream(path) as stream:
            while piece := stream.read(_PIECE):
                yield piece

    def size(self, key: str) -> int | None:
        from pyarrow.fs import FileType

        with self._asking():
            found = self._files.get_file_info(f"{self._root}/{key}")
        return int(found.size) if found.type == FileType.File else None

    def page(self, below: str, token: str) -> tuple[Sequence[Found], str]:
        from pyarrow.fs import FileSelector, FileType

        above = f"{self._root}/{below.rpartition('/')[0]}".rstrip("/")
        with self._asking():
            infos = self._files.get_file_info(FileSelector(above, allow_not_found=True, recursive=True))
        found = [
            Found(info.path[len(self._root) + 1 :], info.size, (info.mtime_ns or 0) / 1e9)
            for info in infos
            if info.type == FileType.File
        ]
        return [each for each in found if each.key.startswith(below)], ""

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with self._asking(), suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{key}")

    def close(self) -> None:
        """Do nothing: pyarrow frees what it holds when nothing refers to it."""

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Translate pyarrow's errors to those of Objects. It tells most of them only in the message of an OSError."""
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            said, scheme = _said(error), urlsplit(self.address).scheme
            raise refused(self.address, said, _REMEDIES[scheme]) if _REFUSED.search(said) else Passing(said) from None


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
