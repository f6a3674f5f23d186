"""The numerical room: torch and numpy only. It knows nothing of Ray, MLflow, Optuna, YAML or the CLI."""
