"""What changes a written log: verify finds damage, repair and stand-ins mend it, an erasure takes messages out."""
