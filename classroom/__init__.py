"""What instructors run: plug-ins that let nbgrader grade whatever is handed in."""
