"""The recipient's side of Delta Sharing: what any server shares, read without trust in it."""
