"""What tests share: processes, ports, certificates, peers that misbehave on purpose."""
