"""The values that all packages of drctl use, its errors, and the ports that the core needs.

Nothing here imports another part of drctl.
"""
