"""The commands: cooked inputs, supervised arrows, presented results."""

import os

# NumPy's BLAS would start a thread for each core, which spins for a while; none of our
# products is large enough for a second one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
