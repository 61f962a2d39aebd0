"""`POST /v1/sql`: statements of users who are no administrators, beside the jobs (docs/sql.md)."""
