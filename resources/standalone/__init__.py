"""Files of the exports that predict without flnet: copied into them as they are (`flnet.compute.standalone`)."""
