"""Studies and tables of the papers: `dmltune reproduce STUDY`."""
