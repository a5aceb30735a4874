"""The engine of a service in another process, with the methods of the engine in this one."""
