"""The CommitLog: it places and writes what is appended, brings it to disk, begins segments, lets old ones go, and
recovers all that when it is opened.
"""
