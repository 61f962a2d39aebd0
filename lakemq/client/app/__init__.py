"""Applications of listeners, but for who calls these: `App` and `TestApp` do, with asyncio and without."""
