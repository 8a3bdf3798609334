"""From a settings file to finished runs and tables: studies that resume where they stopped, here or on a cluster."""
