"""What a person sees of a plan, a learning run or an experiment: one record, one folder, one page."""
