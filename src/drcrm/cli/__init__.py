"""The commands for logs of one's own: from a file to a policy, a page and a verdict."""
