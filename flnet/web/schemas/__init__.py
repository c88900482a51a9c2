"""What the REST API answers, field by field, for its description and for who reads it by machine."""
