"""Six standard methods, each as its source describes it, behind the same protocol."""
