"""Other data for a trainer: they are taken in between two rounds, and the model stays if it can."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import Effect
from flnet.events import DataChanged
from flnet.jobs.arriving import arrived
from flnet.jobs.model import Model
from flnet.jobs.restoring import model_of
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.params import Schema


def renewed(s: JobState, event: DataChanged) -> list[Effect]:
    """Go on with the data that the trainer was loaded with now.

    The model is kept where the trainer's parameters have the same names and shapes and the same is agreed; else
    the job begins with the trainer's initial parameters, as it does when there were no data before.
    """
    declared, held = event.declaration, s.model
    shared = event.params.select(declared.shared)
    private = event.params.select(event.params.keys() - set(declared.shared))
    schema = Schema.of(shared, declared.merge, declared.agreement)
    before = s.declaration
    s.fresh, s.declaration, s.error, s.phase = None, declared, None, Phase.IDLE
    s.hyper = s.hyper or declared.defaults
    stays = held is not None and held.schema.digest == schema.digest
    if held is None or not stays:
        s.accuracy, s.rival, s.sent, s.early = None, None, None, {}
        s.rolled_back = held is None and s.rolled_back
        initial = Model(schema, shared, private)
        s.model, s.restored = model_of(s, initial) if held is None else initial, None
        private = s.model.private
    elif Schema.of(held.private).digest != Schema.of(private).digest:
        s.model = held.with_private(private)
    else:
        private = held.private
    measure = arrived(s, event if stays else replace(event, added=0), before)
    words = f"{declared.label} works on other data now: {declared.data.get('source', '')}"
    if held is not None and not stays:
        words += "; its model does not fit them and begins anew"
    return [s.save(with_params=True, private=private), *measure, s.tell("data_changed", words)]
