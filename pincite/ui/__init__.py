"""The processes that `pincite ui` starts: Dagster's, against one state, and the guard before its webserver."""
