"""What serves on this machine when no outside service is named."""
