"""The options of commands that start Spark."""

from __future__ import annotations

import argparse


def add_spark_options(
    group: argparse._ActionsContainer,
    masters: str = "or sc://HOST:PORT of a Spark Connect server",
    setting: str = "spark.driver.memory=4g",
) -> None:
    """Add the options about Spark itself; the help names masters and a setting."""
    add = group.add_argument
    add(
        "--master",
        metavar="URL",
        help=f"The Spark master, {masters} (default local[*], or spark-submit's)",
    )
    add(
        "--conf",
        metavar="NAME=VALUE",
        type=spark_setting,
        action="append",
        default=[],
        help=f"A setting of Spark, such as {setting} (may be repeated)",
    )


def spark_setting(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE`` of ``--conf``: an argparse type."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name.strip(), value.strip()
