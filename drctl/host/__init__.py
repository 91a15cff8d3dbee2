"""What drctl needs of this machine: private files, processes, connections."""
