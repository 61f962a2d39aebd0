"""Applications of listeners, except for the calls of the listeners, which `App` and `TestApp` make, with asyncio and
without."""
