"""The processes of `pincite ui` for one state: Dagster's own, and the guard in front of its webserver."""
