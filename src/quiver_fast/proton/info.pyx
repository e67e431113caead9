"""Facts of the engine in this build."""

from quiver_fast.proton.libproton cimport PN_VERSION_MAJOR, PN_VERSION_MINOR, PN_VERSION_POINT

cdef extern from *:
    const bint QUIVER_ENGINE_BUNDLED


def engine_version() -> str:
    """Return the version of the Proton engine, ``MAJOR.MINOR.POINT``."""
    return f"{PN_VERSION_MAJOR}.{PN_VERSION_MINOR}.{PN_VERSION_POINT}"


def bundled() -> bool:
    """Say whether the engine is the private library of this package."""
    return QUIVER_ENGINE_BUNDLED
