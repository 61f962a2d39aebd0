"""lakemq: a message queue with Apache RocketMQ's model on a lakehouse."""

__version__ = "0.1.0"
