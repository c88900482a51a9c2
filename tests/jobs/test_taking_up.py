"""Restarts of nodes without common rounds, and changes from one kind of rounds to the other."""

from __future__ import annotations

from flnet.effects import Effect, Fetch, Save, Send, Train
from flnet.events import Event, Paused, PeerSeen, Restored, Resumed, RoundTriggered
from flnet.jobs import Phase
from flnet.messages import AskVersion
from flnet.node.keeper import restored_of
from flnet.params import PeerId
from flnet.store import SavedJob
from tests.jobs.helpers import Bench, prepared
from tests.jobs.restarting import Lasting, kept
from tests.jobs.versions import AloneBench, version


class LastingAlone(AloneBench):
    """Keeps every Save, as a store would."""

    saved = SavedJob()

    def hear(self, event: Event) -> list[Effect]:
        super().hear(event)
        for save in self.all(Save):
            self.saved = kept(self.saved, save)
        return self.effects

    def restarted(self, run: str = "run b2") -> AloneBench:
        """The node after it was killed: it knows what was saved, and no peer yet."""
        return AloneBench(peers=(), first=[restored_of(self.saved)], w=(50, 50), run=run)


def with_two_versions() -> LastingAlone:
    bench = LastingAlone(peers=("a",))
    for number, w in ((1, (4, 0)), (2, (6, 0))):
        bench.hear(RoundTriggered())
        bench.answers(version("a", number, w))
        bench.fetches(a=w)
        bench.merge()
        bench.train((number, number), 20)
    return bench


def test_versions_outlive_a_restart_and_nothing_is_merged_twice() -> None:
    bench = with_two_versions()
    again = bench.restarted()
    assert again.phase is Phase.IDLE and again.w == [2, 2] and again.state.number == 2
    assert again.state.own is not None and again.state.own.examples == 20
    assert again.state.versions.merged == bench.state.versions.merged
    again.hear(_seen("a"))
    told = again.said(AskVersion)
    assert (told.round, told.run, told.digest) == (2, "run b2", bench.state.sent.digest)  # type: ignore[union-attr]
    again.hear(RoundTriggered())
    again.answers(version("a", 2, (6, 0)))
    assert not again.all(Fetch) and again.state.number == 3


def _seen(name: str) -> Event:

    return PeerSeen(PeerId(name))


def test_a_version_under_way_is_begun_again_under_its_number() -> None:
    bench = with_two_versions()
    bench.hear(RoundTriggered(rounds=2))
    bench.answers(version("a", 3, (8, 0)))
    again = bench.restarted()
    assert again.state.number == 3 and again.phase is Phase.TRAINING
    again.train()
    assert again.state.number == 4  # the second one that was asked for


def test_a_pause_keeps_what_was_asked_for_over_a_restart() -> None:

    bench = with_two_versions()
    bench.hear(RoundTriggered())
    bench.hear(Paused())
    again = bench.restarted()
    assert again.phase is Phase.IDLE
    again.hear(Resumed())
    assert again.one(Train).params["w"].tolist() == [2, 2]


def test_a_goal_goes_on_after_a_restart() -> None:
    bench = LastingAlone(peers=())
    bench.hear(RoundTriggered(rounds=9, until="accuracy>=0.9, within 3600"))
    bench.train(accuracy=0.5)
    again = bench.restarted()
    again.train(accuracy=0.95)
    assert again.phase is Phase.IDLE and again.state.pursuit.series is None


def test_a_damaged_record_of_versions_is_told_and_the_node_begins_anew() -> None:
    saved = with_two_versions().saved
    damaged = Restored({**saved.snapshot, "versions": {"heard": 3}}, saved.params, saved.private, saved.sent)
    again = AloneBench(peers=(), first=[damaged], w=(50, 50))
    assert again.phase is Phase.IDLE and again.w == [50, 50]


def test_a_lost_disk_begins_at_a_version_that_is_not_mistaken_for_an_old_one() -> None:
    bench = with_two_versions()
    peer = AloneBench("c", ("b",))
    before = bench.said(AskVersion)
    peer.hear(RoundTriggered())
    peer.answers(version("b", before.round, (2, 2), run=before.run))
    peer.fetches(b=(2, 2))
    peer.merge()
    peer.train()
    anew = AloneBench(peers=(), w=(50, 50), run="run b2")
    anew.hear(RoundTriggered())
    anew.train((9, 9))
    assert anew.state.number == 1
    peer.hear(RoundTriggered())
    peer.answers(version("b", 1, (9, 9), run="run b2"))
    assert len(peer.all(Fetch)) == 1


def test_after_common_rounds_the_average_held_is_the_first_version() -> None:
    bench = Lasting()
    bench.through_round()
    held = bench.w
    alone = AloneBench(peers=("a",), first=[restored_of(bench.saved)], w=(50, 50))
    assert alone.w == held and alone.phase is Phase.IDLE
    assert alone.said(AskVersion).digest == bench.state.model.shared.digest  # type: ignore[union-attr]
    alone.hear(RoundTriggered())
    assert alone.state.number == bench.state.number + 1


def test_an_open_common_round_is_left_and_so_is_a_version_under_way() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    alone = AloneBench(peers=(), first=[restored_of(bench.saved)])
    assert alone.phase is Phase.IDLE
    under_way = LastingAlone(peers=())
    under_way.hear(RoundTriggered())
    common = Bench(prepare=False)
    common.hear(restored_of(under_way.saved))
    common.hear(prepared())
    assert common.phase is Phase.IDLE and not common.all(Send)
