"""HTTP as lakemq's servers speak it: connections with everything bounded, errors as problems, one road to handlers."""
