"""The continuous query that brings the log into the tables."""
