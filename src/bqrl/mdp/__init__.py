"""What a problem is: models, their files, lattices, policies and their Gymnasium face."""
