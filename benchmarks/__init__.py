"""How fast the library is, against DatasetRT and against what the machine allows: ``python -m benchmarks --help``."""
