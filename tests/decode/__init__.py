"""How the bodies of produce requests are decoded."""
