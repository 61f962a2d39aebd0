"""What every request needs, whatever it asks for: heads, bounds of time, problems, answers as JSON."""
