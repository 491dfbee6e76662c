"""The laboratory of live calls: namespaces, links, NAT, the way out, and the programs that run in nodes."""
