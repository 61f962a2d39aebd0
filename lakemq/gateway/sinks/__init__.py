"""Sinks: batches of messages that are staged in parts and committed as one."""
