from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.web.job_view import MAX_FIGURES, MAX_JOBS, job_view, jobs_of, same_job
from flnet.web.view import MAX_TEXT
from flnet.web.words import translator

from .fake_node import FakeNode

THESIS = {
    "current_round": 0,
    "fed_learn_done": "Yes",
    "federated_learning_params": "Learning Rate: 1e-05, Epochs: 2, Batch size: 64",
    "model_was_exchanged": "No",
    "post_fedavg_accuracy": 0.4545,
    "pre_fedavg_accuracy": 0.4,
    "trainer_label": "MNIST Dataset",
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*FakeNode().jobs["MNIST"].view(), "anything"])
JOB = st.dictionaries(NAMES, ANY_JSON) | ANY_JSON


def test_an_old_node_of_the_thesis_is_shown_with_all_its_seven_values() -> None:
    (job,) = jobs_of("NODE_4", {"jobsInfo": [THESIS]})
    assert (job.label, job.round, job.hyper) == ("MNIST Dataset", "0", THESIS["federated_learning_params"])
    assert (job.averaged, job.pre, job.post, job.exchanged) == ("Yes", "40.00 %", "45.45 %", "No")
    assert job.change == "+5.45"  # 45.45 - 40.00
    assert not job.busy
    assert same_job(job, job_view("NODE_1", FakeNode().jobs["MNIST"].view()))
    assert not same_job(job, job_view("NODE_1", FakeNode().jobs["MNIST_3_7"].view()))


def test_a_job_that_never_trained_says_so() -> None:
    job = job_view("NODE_1", FakeNode().jobs["MNIST"].view())
    assert (job.round, job.pre, job.digest) == ("not trained yet", "—", "—")
    assert job.data == "scikit-learn digits; 1,259 train, 178 validation, 360 test rows; 10 classes"
    assert job.data_note == "for MNIST put its four files into a folder"


def test_waiting_and_progress_are_put_into_words() -> None:
    node = FakeNode()
    node.jobs["MNIST"].waiting_for = ["b", "c"]
    node.jobs["MNIST"].phase = "GATHERING"
    node.jobs["MNIST"].progress = {"done": 1, "total": 3}
    job = job_view("NODE_1", node.jobs["MNIST"].view())
    assert (job.phase_words, job.waiting_for, job.busy) == ("Waiting for updates", "b, c", True)
    assert job.progress is not None
    assert job.progress.percent == 33


def test_figures_are_those_after_averaging_or_else_before() -> None:
    before = {"f1_macro": 0.25, "accuracy": 0.5}
    assert job_view("x", {"metrics": {"before": before}}).figures == (("f1_macro", "0.25"),)
    assert job_view("x", {"metrics": {"before": before}}).figures_when == "before averaging"
    job = job_view("x", {"metrics": {"before": before, "after": {"f1_macro": 0.1 + 0.2}}})
    assert (job.figures, job.figures_when) == ((("f1_macro", "0.3"),), "after averaging")


@pytest.mark.parametrize("claim", [True, "1", None, [1], float("nan"), float("inf"), 10**400])
def test_what_is_no_finite_number_is_no_figure(claim: Any) -> None:
    assert job_view("x", {"metrics": {"after": {"f1_macro": claim}}}).figures == ()


def test_a_peer_cannot_fill_the_page_with_figures() -> None:
    many = {"x" * 99 + str(i): i for i in range(999)}
    assert len(job_view("x", {"metrics": {"after": many}}).figures) == MAX_FIGURES


@given(JOB)
def test_whatever_a_peer_claims_becomes_short_text(claim: Any) -> None:
    job = job_view("x", claim)
    texts = [value for value in vars(job).values() if isinstance(value, str)]
    assert all(len(value) <= 30 * MAX_TEXT for value in texts)
    assert len(job.figures) <= MAX_FIGURES
    assert all(len(name) <= 40 and len(value) < 20 for name, value in job.figures)
    assert job.progress is None or 0 <= job.progress.percent <= 100


@given(ANY_JSON | st.fixed_dictionaries({"jobsInfo": st.lists(JOB) | ANY_JSON}))
def test_whatever_a_peer_answers_is_a_list_of_jobs(answer: Any) -> None:
    assert all(job.node == "x" for job in jobs_of("x", answer))


def test_a_peer_cannot_fill_the_page_with_jobs() -> None:
    assert len(jobs_of("x", {"jobsInfo": [THESIS] * 9_999})) == MAX_JOBS


def test_the_form_is_filled_with_the_very_values() -> None:
    job = job_view("x", {"hyper": {"e": 2, "u": 1e-05, "b": 64}})
    assert job.hyper_values == {"e": "2", "u": "1e-05", "b": "64"}
    for broken in (None, {"e": 2, "u": 0.1}, {"e": True, "u": 0.1, "b": 1}, {"e": "2", "u": 0.1, "b": 1}):
        assert job_view("x", {"hyper": broken}).hyper_values == {}


def test_hyper_parameters_are_said_in_the_readers_language() -> None:
    job = job_view("x", FakeNode().jobs["MNIST"].view(), translator("es"))
    assert job.hyper == "Tasa de aprendizaje: 1e-05, Épocas: 2, Tamaño de lote: 64"


@pytest.mark.parametrize(
    ("state", "counted"),
    [
        ({"phase": "GATHERING", "received": ["a", "b", "d"], "waiting_for": ["c"]}, (3, 4)),
        ({"phase": "TRAINING", "received": ["b"], "waiting_for": []}, (1, 1)),
        ({"phase": "IDLE", "received": ["a", "b"], "waiting_for": []}, (0, 0)),
        ({"phase": "GATHERING", "received": "abc", "waiting_for": {"a": 1}}, (0, 0)),
    ],
)
def test_updates_are_counted_while_a_round_is_open(state: dict[str, Any], counted: tuple[int, int]) -> None:
    job = job_view("x", state)
    assert (job.received, job.expected) == counted


@pytest.mark.parametrize(("claim", "read"), [(True, True), (False, False), (None, None), ("yes", None), (1, None)])
def test_whether_a_job_is_paused_is_known_or_not(claim: Any, read: bool | None) -> None:
    assert job_view("x", {"paused": claim}).paused is read
