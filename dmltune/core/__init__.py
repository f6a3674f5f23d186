"""The numerical room: torch and numpy only, without Ray, MLflow, Optuna, YAML and CLI."""
