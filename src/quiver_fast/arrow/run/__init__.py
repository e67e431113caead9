"""What both kinds of arrow share: the run's limits and signals, its schedule, its socket."""
