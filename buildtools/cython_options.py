"""How every .pyx of this project is translated."""

# Hot modules trust their own bounds; the tests hold them to slow twins.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": False,
}
