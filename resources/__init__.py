"""Files of the page, served as they are; installed as the package flnet_resources."""
