"""Values and pure rules. Nothing here does I/O or reads a clock."""
