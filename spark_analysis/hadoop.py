"""What Spark's users say to Hadoop of their file systems, for clients that are not Hadoop's.

Settings are those of ``core-site.xml`` and of ``spark.hadoop.*``, under Hadoop's names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from quiver_fast.analysis.read.discovery import is_url
from quiver_fast.errors import UsageError

Settings: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values, in order of the names; they travel with what a task reads."""

_PREFIXES = ("fs.s3a.", "dfs.namenode.http", "dfs.http.policy", "dfs.nameservices")
_KERBEROS = "hadoop.security.authentication"
_SPARK = "spark.hadoop."
# These may stand in a store of credentials instead of a file of settings.
_SECRETS = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_HTTP_PORT, _HTTPS_PORT = 9870, 9871


def hadoop_settings(spark: SparkSession) -> Settings:
    """Return what the session says of file systems.

    The Hadoop of a Spark Connect server is out of reach: there this is what ``spark.hadoop.*``
    says.
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
    """Return what reading ``paths`` takes; nothing is asked where all are of this machine."""
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
