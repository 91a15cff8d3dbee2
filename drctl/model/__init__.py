"""The values that travel through drctl, the errors it ends with, and the ports the core needs.

Nothing here imports another part of drctl.
"""
