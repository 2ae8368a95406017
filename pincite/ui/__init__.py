"""What `pincite ui` starts: Dagster's processes against one state, and the guard before its webserver."""
