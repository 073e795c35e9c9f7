"""What generation costs, and how well models translate."""
