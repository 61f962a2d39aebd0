"""SQL: the catalog of the lake, live views over Delta and the log's tail, one statement and its forms."""
