"""What is done around a trainer: FedProx, SCAFFOLD, and personal models beside the common one."""

from flnet.training.methods.pooling import with_labels
from flnet.training.methods.wrapping import with_method

__all__ = ["with_labels", "with_method"]
