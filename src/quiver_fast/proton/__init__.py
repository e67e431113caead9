"""The Proton C engine: its declarations for Cython, its log, and facts of its build."""
