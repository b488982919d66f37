"""Steps from DataFrame to DataFrame: no session, no read, no write, no action."""
