"""What flnet did at revision 1a28d2c, recorded: see README.md here."""
