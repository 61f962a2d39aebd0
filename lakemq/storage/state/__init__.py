"""What the log says: topics, groups, what waits to be routed, receipts, sinks, users. Each is made by applying frames,
in the order of the log, and a snapshot only makes that shorter.
"""
