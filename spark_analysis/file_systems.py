"""Files elsewhere than on this machine: ``s3a://`` and ``hdfs://`` as Spark's users give them.

fsspec lists, matches patterns and reads ranges; below it are Arrow's own S3 client and the
HTTP interface of HDFS. Hadoop's settings of endpoints and credentials are handed
on to them: settings are those of ``core-site.xml`` and of ``spark.hadoop.*``, under Hadoop's
names. Only :func:`hadoop_settings` needs Java, so that executors and the planner of Spark's
Python data sources can use the rest.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from stat import S_IFREG
from types import SimpleNamespace
from typing import Any, TypeAlias

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem
from pyspark.sql import SparkSession

from quiver_fast.analysis.read.discovery import is_url, local_name, without_remainders
from quiver_fast.analysis.read.record_names import RECORD_FILES
from quiver_fast.errors import UsageError

Settings: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values, in order of the names; a task gets them with its files."""

_PREFIXES = ("fs.s3a.", "dfs.namenode.http", "dfs.http.policy", "dfs.nameservices")
_KERBEROS = "hadoop.security.authentication"
_SPARK = "spark.hadoop."
# These may stand in a store of credentials instead of a file of settings.
_SECRETS = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_HTTP_PORT, _HTTPS_PORT = 9870, 9871

_S3 = ("s3", "s3a", "s3n")
_HDFS = ("hdfs", "webhdfs")
_MARK = "://"

# The bytes of a read; each read that continues the one before takes four times as many.
_FIRST_READ = 1 << 16
_MOST_READ = 8 << 20


def hadoop_settings(spark: SparkSession) -> Settings:
    """Return the session's settings of file systems.

    The Hadoop of a Spark Connect server is out of reach: there these are those of
    ``spark.hadoop.*``.
    """
    context = getattr(spark, "_jsc", None)
    if context is None:
        return settings_in(spark.conf.getAll)
    hadoop = context.hadoopConfiguration()
    found = {
        prefix + name: value
        for prefix in _PREFIXES
        for name, value in dict(hadoop.getPropsWithPrefix(prefix)).items()
    }
    for name in _SECRETS:
        secret = hadoop.getPassword(name)
        if secret is not None:
            found[name] = "".join(secret)
    kerberos = hadoop.get(_KERBEROS)
    if kerberos is not None:
        found[_KERBEROS] = kerberos
    return tuple(sorted(found.items()))


def settings_for(spark: SparkSession, paths: Iterable[str]) -> Settings:
    """Return the settings for reading ``paths``; none if all are of this machine."""
    return hadoop_settings(spark) if any(is_url(path) for path in paths) else ()


def settings_in(options: Mapping[str, str]) -> Settings:
    """Return those of ``options`` that are about file systems.

    Args:
        options: of a data source, of a command line or of Spark: with or without
            ``spark.hadoop.`` before Hadoop's names.
    """
    named = {name.removeprefix(_SPARK): value for name, value in options.items()}
    return tuple(
        sorted((n, v) for n, v in named.items() if n.startswith(_PREFIXES) or n == _KERBEROS)
    )


def s3_options(bucket: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return how ``pyarrow.fs.S3FileSystem`` reaches a bucket.

    Without keys it looks for them where the AWS tools do: environment, profile, machine.
    """

    def said(name: str) -> str | None:
        own = settings.get(f"fs.s3a.bucket.{bucket}.{name}")
        value = own if own is not None else settings.get(f"fs.s3a.{name}")
        return value or None

    found: dict[str, Any] = {}
    if said("access.key") is not None:
        found["access_key"] = said("access.key")
        found["secret_key"] = said("secret.key") or ""
        found["session_token"] = said("session.token")
    elif _ANONYMOUS in (said("aws.credentials.provider") or ""):
        found["anonymous"] = True
    region = said("endpoint.region")
    endpoint = said("endpoint")
    if endpoint is not None:
        scheme, mark, host = endpoint.rpartition("://")
        plain = said("connection.ssl.enabled") == "false"
        found["scheme"] = scheme if mark else "http" if plain else "https"
        found["endpoint_override"] = host.rstrip("/")
        found["force_virtual_addressing"] = said("path.style.access") != "true"
        region = region or "us-east-1"
    if region is not None:
        found["region"] = region
    return found


def hdfs_options(scheme: str, authority: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return how ``fsspec``'s WebHDFS reaches a namenode.

    Args:
        scheme: ``hdfs``, or ``webhdfs`` with the HTTP port in the URL itself.
        authority: host and port of the URL.
        settings: Hadoop's.

    Raises:
        UsageError: the URL names a service of several namenodes.
    """
    if authority in settings.get("dfs.nameservices", "").split(","):
        raise UsageError(
            f"{scheme}://{authority} is a service of several namenodes: name the active one"
        )
    host, _, port = authority.partition(":")
    secure = settings.get("dfs.http.policy") == "HTTPS_ONLY"
    if scheme == "hdfs":
        name = "dfs.namenode.https-address" if secure else "dfs.namenode.http-address"
        own, _, port = settings.get(name, "").partition(":")
        # The address that it listens on may be any of its own.
        host = host if own in ("", "0.0.0.0") else own  # noqa: S104 (compared, not bound)
    options: dict[str, Any] = {
        "host": host,
        "port": int(port) if port else _HTTPS_PORT if secure else _HTTP_PORT,
        "use_https": secure,
    }
    if settings.get(_KERBEROS) == "kerberos":
        return options | {"kerberos": True}
    user = os.environ.get("HADOOP_USER_NAME")
    return options if user is None else options | {"user": user}


@dataclass(frozen=True)
class RemotePath:
    """A file or folder elsewhere, with the methods of :class:`pathlib.Path` that are used.

    Calling it opens it (:data:`quiver_fast.records.sources.Place`).

    Attributes:
        scheme: the scheme of its URL.
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
        with _one_line_errors(self):
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
        """Return the path of ``name`` in the same folder."""
        return replace(self.parent, path=f"{self.parent.path}/{name}".lstrip("/"))

    def absolute(self) -> RemotePath:
        """Return the path itself."""
        return self

    def match(self, pattern: str) -> bool:
        """Say whether the last parts of the path match."""
        return self.pure.match(pattern)

    def exists(self) -> bool:
        """Say whether there is something."""
        # fsspec's own function returns False also if a server cannot be reached.
        with _one_line_errors(self):
            try:
                self._system.info(self._key)
            except FileNotFoundError:
                return False
            return True

    def is_dir(self) -> bool:
        """Say whether it is a folder."""
        with _one_line_errors(self):
            return bool(self._system.isdir(self._key))

    def stat(self) -> SimpleNamespace:
        """Return the size of a file, as ``st_size``, and that it is one, as ``st_mode``."""
        with _one_line_errors(self):
            return SimpleNamespace(st_mode=S_IFREG, st_size=self._system.info(self._key)["size"])

    def read_bytes(self) -> bytes:
        """Return all of a file."""
        with _one_line_errors(self):
            return bytes(self._system.cat_file(self._key))

    def write(self, source: Path) -> None:
        """Make this a copy of a file of this machine, and the folders above it.

        Raises:
            OSError: it could not be written.
        """
        with _one_line_errors(self):
            self._system.makedirs(self.parent._key, exist_ok=True)
            self._system.put_file(str(source), self._key)

    def glob(self) -> list[RemotePath]:
        """Return the paths that this one, taken as a pattern, matches, in order; none hidden."""
        with _one_line_errors(self):
            found = [self._at(key) for key in sorted(self._system.glob(self._key))]
        return [path for path in found if not path.name.startswith(".")]

    def search(self) -> list[RemotePath]:
        """Return the files of records in the folder and those below it, in order."""
        with _one_line_errors(self):
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
    """Say whether a text is the URL of another file system than this machine's."""
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
        name: the name of the file there.
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
def _one_line_errors(path: RemotePath) -> Iterator[None]:
    """Turn each error of a client into one of a single line that names the URL."""
    try:
        yield
    # RuntimeError: other errors of a namenode.
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
        with _one_line_errors(self._path):
            self._file.seek(self._position)
            self._block = self._file.read(min(wanted, self._size - self._position))
        if not self._block:
            raise OSError(errno.EIO, "became shorter while it was read", self.name)
        self._start = self._position
