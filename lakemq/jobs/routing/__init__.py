"""The queries that decide where messages go: delays, transactions, and what consumers gave back.

Each reads its system topics, without bodies, and posts decisions to the brokers, which carry them
out once each (docs/routing.md). So a query that dies, or a batch that is replayed, needs no care:
a start takes up from the first cause that its broker still has pending.
"""
