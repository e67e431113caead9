"""Data that all figures share: units, ranks, columns, distributions, histograms."""
