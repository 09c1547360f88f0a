"""Where the parts are put together: settings, state, lock, tools."""
