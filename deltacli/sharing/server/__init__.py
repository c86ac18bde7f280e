"""A Delta Sharing server: what is shared with whom, the answers, and how they are served."""
