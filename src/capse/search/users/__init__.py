"""What is known of a user: a profile made of the documents clicked so far, and the running sums that keep it."""
