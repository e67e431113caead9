"""The commands: cooked inputs, supervised arrows, presented results."""

import os

# NumPy's BLAS would start a thread for each core, and each thread spins for a while. None of
# our products of matrices is large enough for a second thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
