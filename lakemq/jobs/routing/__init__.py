"""The query that decides where messages go: delays, transactions, and what consumers gave back.

It reads the system topics, without bodies (`wheel_rows`), keeps what waits by the time at which it is looked at
(`wheel_state`), and posts what `lakemq.model.wheel` decides to the brokers, which carry it out once
(docs/routing.md). So a query that dies, or a batch that is replayed, needs no care: a start takes up what
its broker lists as pending, and the log from there on.
"""
