"""Write files so that nothing is lost, and bring them back."""
