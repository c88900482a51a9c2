"""Several labels a row, each node with labels of its own: MLFedAvg in PyTorch.

D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados", master's thesis, Universidad de
Sevilla, 2024. The core V -> 100 -> 20 (ReLU) is shared and averaged; the output layer 20 -> M, with a sigmoid
for each of the node's own M labels, is private: it stays on the node from round to round and never travels.
How the cores are weighed (agg0, agg1, agg2) is the node's setting FLNET_AGGREGATION.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from flnet.training.api import (
    Array,
    DataInfo,
    Fit,
    HyperParams,
    InputSpec,
    Prediction,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)
from flnet.training.metrics import multi_label_figures
from flnet.training.onnx_graph import OnnxGraph

from ._multi_label import NodeData, Side, load_node_data
from ._torch import CPU, chosen_device

DATA_PLACE = "multi-label"  # below FLNET_DATASETS_PATH
HIDDEN = (100, 20)
CORE = ("core.0.weight", "core.0.bias", "core.1.weight", "core.1.bias")
HEAD = ("head.weight", "head.bias")
BETAS, EPSILON = (0.9, 0.999), 1e-7  # of Adam


class Part:
    """One side of the split as tensors."""

    def __init__(self, side: Side, device: torch.device) -> None:
        self.x, self.y = torch.from_numpy(side.x).to(device), torch.from_numpy(side.y).to(device)

    def __len__(self) -> int:
        return len(self.y)


class Adam:
    """Adam (Kingma, Ba 2015) by hand: the first optimiser of torch.optim costs a second and 80 MB to import."""

    def __init__(self, params: Sequence[Tensor], rate: float) -> None:
        self._params, self._rate, self._steps = params, rate, 0
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step against these gradients."""
        self._steps += 1
        first, second = (1 - beta**self._steps for beta in BETAS)
        for param, gradient, (mean, square) in zip(self._params, gradients, self._moments, strict=True):
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            param.addcdiv_(mean, (square / second).sqrt_().add_(EPSILON), value=-self._rate / first)


class MultiLabelNet(Trainer):
    """The network with one node's labels and rows."""

    label = "Multi-label Dataset"
    defaults = HyperParams(e=1, u=0.0008, b=30)
    exchange_threshold = 0.02
    shared = CORE

    def __init__(self, data: NodeData, threads: int = 1, device: torch.device = CPU) -> None:
        torch.set_num_threads(threads)
        self._device = device
        self._info, self.agreement, self._features = data.info, data.agreement, data.features
        self._train, self._validation, self._test = (
            Part(data.sides[name], device) for name in ("train", "validation", "test")
        )
        self._common = Part(data.common, device)
        self._widths = (data.common.x.shape[1], *HIDDEN, data.common.y.shape[1])

    def data_info(self) -> DataInfo:
        """The data set, and this node's labels."""
        return self._info

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Uniform weights (Glorot, Bengio 2010), biases 0.

        The core is equal on all nodes, the head differs with the labels: two nodes that begin with one head pull
        the core to one place for different labels, and need twice the rounds.
        """
        params = {}
        own = zlib.crc32("\n".join(self._info.classes).encode())
        common, private = (torch.Generator().manual_seed(number) for number in (seed, seed + own))
        for layer, inputs, outputs in zip(
            ("core.0", "core.1", "head"), self._widths, self._widths[1:], strict=False
        ):
            chance = private if layer == "head" else common
            bound = (6 / (inputs + outputs)) ** 0.5
            params[f"{layer}.weight"] = (
                torch.empty(outputs, inputs).uniform_(-bound, bound, generator=chance).numpy()
            )
            params[f"{layer}.bias"] = torch.zeros(outputs).numpy()
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, with an Adam that begins anew.

        The weight in the average counts the rows of validation too, as the thesis has it.
        """
        params = {name: tensor.requires_grad_() for name, tensor in self._tensors(task.params).items()}
        optimiser = Adam(list(params.values()), task.hyper.u)
        batches, loss_sum = _batches(len(self._train), task), 0.0
        for done, rows in enumerate(batches, start=1):
            loss = _loss(params, self._train.x[rows], self._train.y[rows])
            optimiser.step(torch.autograd.grad(loss, list(params.values())))
            loss_sum += float(loss.detach())
            task.progress(done, len(batches))
            if task.is_over():
                break
        metrics = {"loss": loss_sum / done, **self._validated(params)}
        return Fit(
            {name: tensor.detach().cpu().numpy() for name, tensor in params.items()},
            examples=min(len(self._train), done * task.hyper.b) + len(self._validation),
            labels=self._widths[-1],
            metrics=metrics,
        )

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Figures on this node's test and, as `global_...`, on the test common to all nodes, for its own labels.

        The accuracy that nodes compare is the argmax accuracy: what the thesis' tables give as SA.
        """
        tensors = self._tensors(params)
        figures = _figures(tensors, self._test)
        if len(self._common):
            figures |= {f"global_{name}": value for name, value in _figures(tensors, self._common).items()}
        return Score(figures["argmax_accuracy"], len(self._test), figures)

    def input_spec(self) -> InputSpec:
        """One row, as in the data set."""
        names = self._features if len(set(self._features)) == self._widths[0] else ()
        return InputSpec(
            "features", self._widths[:1], names=names, hint="one row, with the columns of the data set"
        )

    @torch.inference_mode()
    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """The probability of each of this node's labels."""
        scores = _outputs(self._tensors(params), torch.tensor(inputs, device=self._device))
        return Prediction(torch.sigmoid(scores).cpu().numpy(), "any_of")

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        """The same layers, with this node's own head."""
        graph = OnnxGraph("MULTI_LABEL", self._widths[:1])
        for layer in ("core.0", "core.1"):
            graph.dense(params[f"{layer}.weight"].T, params[f"{layer}.bias"]).relu()
        return graph.dense(params["head.weight"].T, params["head.bias"]).sigmoid().to_bytes()

    def _tensors(self, params: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: torch.tensor(params[name], device=self._device) for name in (*CORE, *HEAD)}

    @torch.inference_mode()
    def _validated(self, params: Mapping[str, Tensor]) -> dict[str, float]:
        part = self._validation
        figures = _figures(params, part)
        return {
            "validation_loss": float(_loss(params, part.x, part.y)),
            "validation_accuracy": figures["argmax_accuracy"],
            "validation_f1_macro": figures["f1_macro"],
        }


def _batches(rows: int, task: Task) -> list[Tensor]:
    """The row numbers of every batch of this training."""
    chance = torch.Generator().manual_seed(task.seed)
    orders = [torch.randperm(rows, generator=chance) for _ in range(task.hyper.e)]
    return [batch for order in orders for batch in torch.split(order, task.hyper.b)]


def _outputs(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """One score per label before the sigmoid, (n, M)."""
    for layer in ("core.0", "core.1"):
        x = F.relu(F.linear(x, params[f"{layer}.weight"], params[f"{layer}.bias"]))
    return F.linear(x, params["head.weight"], params["head.bias"])


def _loss(params: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Mean binary cross-entropy over rows and labels."""
    return F.binary_cross_entropy_with_logits(_outputs(params, x), y.float())


@torch.inference_mode()
def _figures(params: Mapping[str, Tensor], part: Part) -> dict[str, float]:
    return multi_label_figures(part.y.cpu().numpy(), torch.sigmoid(_outputs(params, part.x)).cpu().numpy())


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's labels and rows, and the network for them."""
    device = chosen_device(settings.device)
    return MultiLabelNet(load_node_data(settings), settings.threads, device)
