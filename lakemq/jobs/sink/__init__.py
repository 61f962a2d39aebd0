"""`writeStream.format("lakemq")`: each batch of a stream is stored once."""
