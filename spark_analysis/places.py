"""Files elsewhere than on this machine: ``s3a://`` and ``hdfs://`` as Spark's users give them.

fsspec lists, matches patterns and reads ranges; below it are Arrow's own S3 client and the
HTTP interface of HDFS. What the user said to Hadoop of endpoints and credentials is handed
on to them (:mod:`spark_analysis.hadoop`). Nothing here needs Java, so that executors and the
planner of Spark's Python data sources can use it.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from stat import S_IFREG
from types import SimpleNamespace
from typing import Any

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem

from quiver_fast.analysis.read.discovery import local_name, without_remainders
from quiver_fast.analysis.read.record_names import RECORD_FILES
from quiver_fast.errors import UsageError
from spark_analysis.hadoop import Settings, hdfs_options, s3_options

_S3 = ("s3", "s3a", "s3n")
_HDFS = ("hdfs", "webhdfs")
_MARK = "://"

# A read takes so much, and four times as much where the next goes on behind it.
_FIRST_READ = 1 << 16
_MOST_READ = 8 << 20


@dataclass(frozen=True)
class RemotePath:
    """A file or folder elsewhere, with what the analysis uses of :class:`pathlib.Path`.

    Calling it opens it (:data:`quiver_fast.records.sources.Place`).

    Attributes:
        scheme: what its URL begins with.
        authority: the bucket, or the host and port.
        path: the path there, without a slash at either end.
        settings: Hadoop's, as far as they are about file systems.
        end: where reading it in a row will end; None for its end.
    """

    scheme: str
    authority: str
    path: str
    settings: Settings = field(repr=False)
    end: int | None = None

    def __str__(self) -> str:
        """Return the URL."""
        return f"{self.scheme}{_MARK}{self.authority}/{self.path}".rstrip("/")

    def __call__(self) -> io.RawIOBase:
        """Open the file for reading by ranges.

        Raises:
            OSError: it cannot be read.
        """
        with _told(self):
            file = self._system.open(self._key, "rb")
            return _RangeReader(file, file.seek(0, os.SEEK_END), self)

    @property
    def pure(self) -> PurePosixPath:
        """Its path, the authority in front, without a file system."""
        return PurePosixPath(self.authority, self.path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.pure.name

    @property
    def parent(self) -> RemotePath:
        """The folder that it is in."""
        return replace(self, path=self.path.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Return what is called ``name`` in the same folder."""
        return replace(self.parent, path=f"{self.parent.path}/{name}".lstrip("/"))

    def absolute(self) -> RemotePath:
        """Return the path itself."""
        return self

    def match(self, pattern: str) -> bool:
        """Say whether the last parts of the path match."""
        return self.pure.match(pattern)

    def exists(self) -> bool:
        """Say whether there is something."""
        # fsspec's own answer is no as well where a server cannot be reached.
        with _told(self):
            try:
                self._system.info(self._key)
            except FileNotFoundError:
                return False
            return True

    def is_dir(self) -> bool:
        """Say whether it is a folder."""
        with _told(self):
            return bool(self._system.isdir(self._key))

    def stat(self) -> SimpleNamespace:
        """Return the size of a file, as ``st_size``, and that it is one, as ``st_mode``."""
        with _told(self):
            return SimpleNamespace(st_mode=S_IFREG, st_size=self._system.info(self._key)["size"])

    def read_bytes(self) -> bytes:
        """Return all of a file."""
        with _told(self):
            return bytes(self._system.cat_file(self._key))

    def write(self, source: Path) -> None:
        """Make this a copy of a file of this machine, and the folders above it.

        Raises:
            OSError: it could not be written.
        """
        with _told(self):
            self._system.makedirs(self.parent._key, exist_ok=True)
            self._system.put_file(str(source), self._key)

    def glob(self) -> list[RemotePath]:
        """Return what the path, taken as a pattern, matches, in order; nothing hidden."""
        with _told(self):
            found = [self._at(key) for key in sorted(self._system.glob(self._key))]
        return [path for path in found if not path.name.startswith(".")]

    def search(self) -> list[RemotePath]:
        """Return the files of records in the folder and those below it, in order."""
        with _told(self):
            found = [self._at(key) for key in sorted(self._system.find(self._key))]
        files = [path for path in found if any(path.match(pattern) for pattern in RECORD_FILES)]
        return without_remainders(files)

    @property
    def _system(self) -> fsspec.AbstractFileSystem:
        return _file_system(self.scheme, self.authority, self.settings)

    @property
    def _key(self) -> str:
        """The place's name in its file system."""
        return f"{self.authority}/{self.path}" if self.scheme in _S3 else f"/{self.path}"

    def _at(self, key: str) -> RemotePath:
        path = key.partition("/")[2] if self.scheme in _S3 else key.strip("/")
        return replace(self, path=path)


def is_remote(text: str) -> bool:
    """Say whether what a user gave is the URL of another file system than this machine's."""
    scheme, mark, _ = text.partition(_MARK)
    return bool(mark) and scheme.isalnum() and scheme != "file"


def remote_path(url: str, settings: Settings = ()) -> RemotePath:
    """Return the path that a URL, or a pattern of URLs, stands for.

    Raises:
        UsageError: there is no way to read such URLs.
    """
    scheme, _, rest = url.partition(_MARK)
    authority, _, path = rest.partition("/")
    if scheme not in (*_S3, *_HDFS):
        known = ", ".join(f"{name}{_MARK}" for name in ("file", *_S3, *_HDFS))
        raise UsageError(f"'{url}': cannot read {scheme}{_MARK}; known are {known}")
    if not authority:
        what = "bucket" if scheme in _S3 else "host of the namenode"
        raise UsageError(f"'{url}' names no {what}")
    return RemotePath(scheme, authority, path.strip("/"), settings)


def check_place(uri: str) -> None:
    """See to it that a URI is one that :func:`write_elsewhere` can write below.

    Raises:
        UsageError: it is not.
    """
    if local_name(uri) == uri:
        if _MARK not in uri:
            raise UsageError(f"'{uri}' is no URI: write s3a://BUCKET/…, hdfs://HOST/… or file:///…")
        remote_path(uri)


def write_elsewhere(uri: str, name: str, source: Path, settings: Settings) -> str:
    """Copy a file into a folder elsewhere; return its URI.

    Args:
        uri: the folder, made if it is not there; ``file:///…`` is one of this machine.
        name: what to call the file there.
        source: the file.
        settings: Hadoop's.

    Raises:
        OSError: it could not be written.
    """
    if local_name(uri) != uri:
        folder = Path(local_name(uri))
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
        return f"{uri.rstrip('/')}/{name}"
    target = remote_path(f"{uri.rstrip('/')}/{name}", settings)
    target.write(source)
    return str(target)


@lru_cache
def _file_system(scheme: str, authority: str, settings: Settings) -> fsspec.AbstractFileSystem:
    if scheme in _S3:
        return ArrowFSWrapper(S3FileSystem(**s3_options(authority, dict(settings))))
    return fsspec.filesystem("webhdfs", **hdfs_options(scheme, authority, dict(settings)))


@contextmanager
def _told(path: RemotePath) -> Iterator[None]:
    """Make of whatever a client raises an error of one line that names the URL."""
    try:
        yield
    # RuntimeError: what a namenode says that is none of these.
    except (OSError, ValueError, RuntimeError) as error:
        text = " ".join((str(error) or type(error).__name__).split())
        code = error.errno if isinstance(error, OSError) else None
        if isinstance(error, FileNotFoundError):
            text = os.strerror(errno.ENOENT)
        raise OSError(code or errno.EIO, text, str(path)) from None


class _RangeReader(io.RawIOBase):
    """A file elsewhere, read by ranges, which grow while reading goes on in a row."""

    def __init__(self, file: Any, size: int, path: RemotePath) -> None:
        self._file = file
        self._path = path
        self.name = str(path)
        self._size = size
        self._position = 0
        self._block = b""
        self._start = 0
        self._step = _FIRST_READ

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, view: Any) -> int:
        target, done = memoryview(view).cast("B"), 0
        while done < len(target) and self._position < self._size:
            inside = self._position - self._start
            if not 0 <= inside < len(self._block):
                self._fetch()
                inside = 0
            part = self._block[inside : inside + len(target) - done]
            target[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _fetch(self) -> None:
        """Read the block that begins where the position is."""
        goes_on = self._position == self._start + len(self._block)
        self._step = min(4 * self._step, _MOST_READ) if goes_on else _FIRST_READ
        end = self._path.end
        wanted = self._step
        if end is not None and self._position < end:
            wanted = min(wanted, end - self._position)
        with _told(self._path):
            self._file.seek(self._position)
            self._block = self._file.read(min(wanted, self._size - self._position))
        if not self._block:
            raise OSError(errno.EIO, "became shorter while it was read", self.name)
        self._start = self._position
