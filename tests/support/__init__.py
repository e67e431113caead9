"""Helpers of the tests: processes, ports, certificates, peers that misbehave on purpose."""
