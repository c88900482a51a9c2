"""Named arrays: schema, digests, quantization, file format, and the arithmetic on them."""
