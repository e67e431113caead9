"""Files for other tools: HdrHistogram, Parquet, JSON."""
