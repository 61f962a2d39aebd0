"""`lakemq jobs`: one process with all queries of some brokers."""
