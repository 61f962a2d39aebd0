"""What keeps the lake in shape: jobs on a schedule, one at a time, beside the queries."""
