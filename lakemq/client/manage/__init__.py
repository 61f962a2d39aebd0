"""What an `Admin` is made of: the requests by subject, and what they answer."""
