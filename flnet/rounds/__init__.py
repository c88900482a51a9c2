"""The job: one trainer's rounds on a node, from the start to the closed round. Pure: no clock, disk or network."""
