"""A request and its reply over topics."""
