"""`quiver-fleet`: a run of many ends on the hosts of a Spark cluster."""
