"""What makes a broker one of a fleet: it registers with the name servers."""
