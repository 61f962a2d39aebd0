"""Clients of the HTTP contract. They import only `lakemq.model`."""
