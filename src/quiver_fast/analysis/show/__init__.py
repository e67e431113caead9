"""Results in files for people and other tools: reports, plots, exports."""
