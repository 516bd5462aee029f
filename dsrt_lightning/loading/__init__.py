"""How samples arrive: batches, the loader, torchdata nodes and torch datasets."""
