"""Plug-ins import the contract of trainers from `flnet.training.api`."""
