"""The Proton C engine: its declarations for Cython, and what was built."""
