from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.node.base import FeedItem
from flnet.web.view import (
    MAX_FIGURES,
    MAX_JOBS,
    MAX_TEXT,
    accuracy,
    event_views,
    job_view,
    jobs_of,
    peer_view,
    same_job,
    text,
)

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


def test_rows_of_each_class_and_the_checksum_of_the_own_data_are_shown() -> None:
    own = {
        "data": {"classes": ["NORMAL", "<i>ILL</i>"]},
        "counts": {"train": [1200, 3], "test": [4]},
        "checksum": "0123456789abcdef",
    }
    job = job_view("NODE_1", own)
    assert job.data_classes == (("train", "NORMAL: 1,200, <i>ILL</i>: 3"), ("test", "NORMAL: 4"))
    assert job.checksum.startswith("0123456789")
    many = job_view(
        "NODE_1", {"data": {"classes": [str(n) for n in range(20)]}, "counts": {"train": list(range(20))}}
    )
    assert many.data_classes[0][1].endswith("11: 11 and 8 more classes")


def test_a_job_that_never_trained_says_so() -> None:
    job = job_view("NODE_1", FakeNode().jobs["MNIST"].view())
    assert (job.round, job.pre, job.digest) == ("not trained yet", "—", "—")
    assert job.data == "scikit-learn digits; 1,259 train, 178 validation, 360 test rows; 10 classes"
    assert job.data_note == "for MNIST put its four files into a folder"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"source": "a file", "rows": 1437, "classes": 10}, "a file; 1,437 rows; 10 classes"),
        ({"source": "a file", "rows": None, "classes": None}, "a file"),
        ({"rows": {"train": True, "test": -1}, "classes": "ten"}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_data_is_described_as_far_as_it_is_told(data: Any, words: str) -> None:
    assert job_view("x", {"data": data}).data == words


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


def test_a_peer_cannot_fill_the_page() -> None:
    assert len(jobs_of("x", {"jobsInfo": [THESIS] * 9_999})) == MAX_JOBS
    assert text("a" * 5_000) == "a" * (MAX_TEXT - 1) + "…"
    assert text("a\n\n b") == "a b"
    assert text("a\ud800\u202eb\x00") == "a\ufffd\ufffdb\ufffd"
    assert text(10**5_000) == ""


@pytest.mark.parametrize("value", [None, "0.5", True, -0.1, 1.1, float("nan"), 10**400, [0.5]])
def test_what_is_no_accuracy_is_a_dash(value: Any) -> None:
    assert accuracy(value) == "—"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:4001", "http://127.0.0.1:4001/"),
        ("node-2.lab:4001", "http://node-2.lab:4001/"),
        ("[::1]:4001", "http://[::1]:4001/"),
        ("javascript:alert(1)", ""),
        ("evil.example/x?:80", ""),
        ("user@evil.example:80", ""),
        ("", ""),
    ],
)
def test_only_an_address_becomes_a_link(address: str, url: str) -> None:
    assert peer_view({"id": "x", "address": address, "state": "alive"}, None).url == url


def test_a_peer_that_gave_no_information_is_shown_with_the_reason() -> None:
    peer = {"id": "x", "address": "127.0.0.1:4001", "state": "alive", "reason": ""}
    assert peer_view(peer, {"id": "x", "info": None, "error": "no answer in 2 s"}).note == "no answer in 2 s"


def test_the_newest_events_come_first() -> None:
    items = [FeedItem(number, 0.0, "k", f"event {number}", "", {}) for number in range(1, 30)]
    assert [event.text for event in event_views(items, 2)] == ["event 29", "event 28"]
