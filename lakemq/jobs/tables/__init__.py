"""The lake's Delta tables: what is in each, how a batch is written, which files they have."""
