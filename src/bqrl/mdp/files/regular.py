"""Reads regular files of bounded size, which may be compressed."""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from bqrl.checks import whole
from bqrl.errors import SizeError

MAX_BYTES = 4 * 2**30  # largest unpacked size, unless the caller raises the limit
MAX_TEXT = 2**30  # of a .csv file, which needs three times its size in memory
MAX_JSON = 2**28  # of a .json file, which needs ten times its size
CHUNK = 2**22
LIMIT_VARIABLE = "BQRL_MAX_FILE_BYTES"


def size_limit(max_bytes: int | None, default: int = MAX_BYTES) -> int:
    """Return the largest unpacked size in bytes: the argument, else the environment variable, else the default."""
    if max_bytes is None:
        text = os.environ.get(LIMIT_VARIABLE, "")
        return whole(int(text) if text.isdecimal() else text, LIMIT_VARIABLE, 1) if text else default
    return whole(max_bytes, "max_bytes", 1)


def check_size(size: int, limit: int, what: str) -> None:
    """Raise SizeError if `what` has more bytes than the limit."""
    if size > limit:
        message = f"{what} must have at most {limit} bytes, got {size}"
        remedy = f"raise the limit with max_bytes={size} or {LIMIT_VARIABLE}"
        raise SizeError(f"{message}; {remedy}", needed=size, limit=limit, name=LIMIT_VARIABLE)


def unpacked_exceeds(path: Path, limit: int) -> bool:
    """Return whether a .gz or .xlsx file has more than `limit` bytes after unpacking; damage is reported when it is read."""
    kind, size = path.suffix.lower(), 0
    with suppress(OSError, EOFError, zlib.error, zipfile.BadZipFile):
        if kind == ".gz":
            with gzip.open(path) as unpacked:  # the bytes are counted, not stored
                while size <= limit and (chunk := unpacked.read(CHUNK)):
                    size += len(chunk)
        elif kind == ".xlsx":
            with zipfile.ZipFile(path) as archive:
                size = sum(part.file_size for part in archive.infolist())
    return size > limit


def check_unpacked(path: Path, limit: int) -> None:
    """Raise SizeError if a file has more than `limit` bytes, before or after unpacking; OSError if it is not a regular file."""
    check_size(regular_size(path), limit, "the file")
    if unpacked_exceeds(path, limit):
        message = f"the unpacked file must have at most {limit} bytes, got more"
        remedy = f"unpack it to see its size, and raise the limit with max_bytes or {LIMIT_VARIABLE}"
        raise SizeError(f"{message}; {remedy}", limit=limit, name=LIMIT_VARIABLE)


def read_regular(path: str | Path, limit: int) -> bytes:
    """Return the content of a regular file; raise OSError if `path` is not one, SizeError if it is too large."""
    check_size(regular_size(path), limit, "the file")
    with Path(path).open("rb") as file:
        return file.read(limit + 1)


def regular_size(path: str | Path) -> int:
    """Return the size of a regular file in bytes; raise OSError if `path` is not one."""
    place = Path(path)
    try:
        found = place.stat()
    except FileNotFoundError:
        if place.is_symlink():
            raise FileNotFoundError(f"{place} is a link to {os.readlink(place)}, which does not exist") from None
        raise FileNotFoundError(f"there is no file {place}") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"{place}: a part of this path is a file, not a folder") from None
    except OSError as error:
        if place.is_symlink() and error.errno is not None:
            raise OSError(f"{place} is a symbolic link that leads back to itself") from None
        raise
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{place} is a folder; give the name of a file")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{place} is not a regular file but a pipe, socket or device; copy its content to a file")
    return found.st_size


def decode_text(content: bytes) -> str:
    """Return text in UTF-8, or in UTF-16 if it begins with that byte order mark; raise UnicodeDecodeError for other bytes."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8-sig")
