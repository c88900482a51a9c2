"""Trainers shipped with flnet, one file or folder each; installed as the package flnet_trainers."""
