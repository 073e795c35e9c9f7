"""What reading, embedding and serving texts costs."""
