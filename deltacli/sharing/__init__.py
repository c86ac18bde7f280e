"""Delta Sharing: what servers and clients of the protocol have in common, and the server."""
