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
}
