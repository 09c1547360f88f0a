"""Who is asking: tokens that an issuer signed, and the callers they vouch for."""
