"""Lightning: the datamodule, its configuration, and the callback that keeps a resume exact."""
