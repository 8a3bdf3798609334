"""What a return is: finite laws and their functionals; knows nothing of MDPs."""
