"""The inner wheel: carries out decisions, each cause once, and anticipates those that are certain."""
