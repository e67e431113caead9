"""Analysis of records from many arrows, runs and machines, on Apache Spark.

Needs the extra ``quiver-fast[spark]`` and Java 17 or newer. The statistics are
those of :mod:`quiver_fast.analysis`; here they are DataFrame transforms.
"""
