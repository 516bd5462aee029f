"""Which records: the metadata table, the rules that select and weigh it, and the population they leave.

Importing this package or unpickling a population does not import Polars; building one does.
"""
