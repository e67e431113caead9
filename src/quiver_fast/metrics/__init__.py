"""Figures of a running process for Prometheus, by HTTP."""
