"""Spans of the gateway's and the jobs', on their way to a collector."""
