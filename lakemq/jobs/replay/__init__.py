"""`lakemq replay`: history is sent again."""
