"""Studies of the papers as programs: `dmltune reproduce STUDY` gives their table and picture."""
