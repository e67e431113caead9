"""The options of commands that start Spark."""

from __future__ import annotations

import argparse


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about Spark itself."""
    add = parser.add_argument
    add(
        "--master",
        metavar="URL",
        help="The Spark master, or sc://HOST:PORT of a Spark Connect server "
        "(default local[*], or spark-submit's)",
    )
    add(
        "--conf",
        metavar="NAME=VALUE",
        type=spark_setting,
        action="append",
        default=[],
        help="A setting of Spark, such as spark.driver.memory=4g (may be repeated)",
    )


def spark_setting(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE`` of ``--conf``: an argparse type."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name.strip(), value.strip()
