"""Cython's options for every .pyx of this project."""

# Hot modules check bounds themselves; the tests compare them with slow twins.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": False,
    "emit_code_comments": False,
}

# Cython's own functions for all modules, compiled once.
SHARED = "quiver_fast.cython_shared"
# No message and no record of a run passes these modules, and -O1 takes half of the compiler's time.
COLD = {
    SHARED,
    *("quiver_fast." + name for name in (
        "arrow.amqp.churn", "arrow.amqp.subscriber", "arrow.csp.endpoint", "loop.balance",
        "loop.opener", "management.links", "proton.conditions", "proton.engine_log", "proton.info",
        "queuefile.damage", "queuefile.files", "queuefile.foreign", "queuefile.recovery",
        "queuefile.reindex", "queuefile.reserve", "queuefile.restart", "queuefile.space",
        "security.security",
    )),
}  # fmt: skip
