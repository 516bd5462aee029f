"""What is on disk: manifests, codecs, the builder and opened caches.

Import the modules themselves: a worker process that unpickles an opened cache must not load what only building needs.
"""
