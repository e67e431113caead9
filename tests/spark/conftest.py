"""One Spark session for all of the tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
# The first test of a file waits for the session, and for a job of many runs.
SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peer("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from spark_analysis.session import make_session

    with pytest.MonkeyPatch.context() as patch:
        # Many small queries: the second compiler would never pay its work back. Only for this
        # JVM: other tests of this process start brokers in Java.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = make_session("local[2]", shuffle_partitions=2)
    # Nor would Java that is compiled for each query: `test_spark_submit.py` has a job with it.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    yield session
    session.stop()
