"""Statistics of recorded transfers; never imports the engine."""
