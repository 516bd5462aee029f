"""Other libraries on W1 to W3, one file each, in an environment of their own: ``make bench PEERS=all``."""
