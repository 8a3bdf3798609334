"""From episodes to policies: learners, the loop that plays them, and the record of what they did."""
