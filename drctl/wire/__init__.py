"""What other tools, Kafka itself and drctl write into topics: pure codecs, one format a module.

What decodes is exact: each byte has been accounted for. Everything else raises `Undecodable`.
A value of None is a tombstone and decodes to None.
"""
