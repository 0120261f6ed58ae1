"""The machine is the table of the design, no more and no less."""

from __future__ import annotations

from itertools import product

import pytest

from memsmith.errors import InvalidTransitionError
from memsmith.lifecycle import REACHABLE, TABLE, TRANSITIONS, Action, Who, check, next_status
from memsmith.types import MemoryStatus

P, A, U, R, T, X, Q, E = (
    MemoryStatus.PENDING_CONFIRMATION,
    MemoryStatus.ACTIVE,
    MemoryStatus.SUPERSEDED,
    MemoryStatus.REJECTED,
    MemoryStatus.RETRACTED,
    MemoryStatus.EXPIRED,
    MemoryStatus.QUARANTINED,
    MemoryStatus.ERASED,
)
NEW = MemoryStatus.PROPOSED

MOVES: dict[Action, tuple[set[MemoryStatus], set[MemoryStatus], set[Who]]] = {
    Action.ACCEPT: ({NEW}, {A}, {Who.LIBRARY}),
    Action.HOLD: ({NEW}, {P}, {Who.LIBRARY}),
    Action.REFUSE: ({NEW}, {R}, {Who.LIBRARY}),
    Action.CONFIRM: ({P}, {A}, {Who.REVIEWER}),
    Action.REJECT: ({P, A, U, Q}, {T}, {Who.REVIEWER}),
    Action.RETRACT: ({P, A, U, Q}, {T}, {Who.REVIEWER}),
    Action.EXPIRE: ({P, A}, {X}, {Who.LIBRARY}),
    Action.SUPERSEDE: ({A}, {U}, {Who.LIBRARY}),
    Action.REINSTATE: ({U}, {A}, {Who.LIBRARY}),
    Action.QUARANTINE: ({P, A, U, X}, {Q}, {Who.REVIEWER}),
    Action.RELEASE: ({Q}, {P, A, U, X}, {Who.REVIEWER}),
    Action.ERASE: ({P, A, U, R, T, X, Q}, {E}, {Who.OWNER}),
    Action.IMPORT: ({NEW}, {P, A, U, R, T, X, Q}, {Who.OWNER}),
}
"""The design's table, typed again by hand; import brings in what another store decided."""

NOTES: dict[Action, set[MemoryStatus]] = {
    Action.REVISE: {P, A, U},
    Action.UPDATE_CONFIDENCE: {P, A, U},
    Action.AMEND_VALIDITY: {P, A, U},
    Action.RETRACT_DURING: {P, A, U, Q},
    Action.EXTEND: {P, A},
    Action.ENDORSE: {P, A},
    Action.REINFORCE: {P, A},
    Action.BLOCK: {P, A, U, Q},
    Action.LIFT_TOMBSTONE: {P, A, U, R, T, X, Q, E},
}
"""What is recorded with the status unchanged."""

EXPECTED: dict[tuple[MemoryStatus, Action], set[MemoryStatus]] = {
    **{(source, action): targets for action, (sources, targets, _) in MOVES.items() for source in sources},
    **{(source, action): {source} for action, sources in NOTES.items() for source in sources},
}

EVERYTHING = list(product(MemoryStatus, Action, MemoryStatus))
LEGAL = [(a, b, c) for a, b, c in EVERYTHING if c in EXPECTED.get((a, b), set())]
ILLEGAL = [(a, b, c) for a, b, c in EVERYTHING if c not in EXPECTED.get((a, b), set())]


def test_every_row_of_the_design_is_in_the_machine_and_nothing_else() -> None:
    assert {pair: set(targets) for pair, targets in TRANSITIONS.items()} == EXPECTED


def test_every_action_has_exactly_one_row() -> None:
    assert sorted(row.action for row in TABLE) == sorted(Action)


@pytest.mark.parametrize("action", MOVES)
def test_who_may_move_a_memory_is_as_designed(action: Action) -> None:
    (row,) = [row for row in TABLE if row.action is action]
    assert {row.who} == MOVES[action][2]


def test_action_names_of_the_first_release_are_kept() -> None:
    assert {
        "proposed", "proposed_pending", "proposed_rejected", "confirmed", "rejected", "retracted", "expired",
        "revised", "confidence_updated",
    } <= {action.value for action in Action}  # fmt: skip


@pytest.mark.parametrize("status", [R, T, X])
def test_an_ended_memory_can_only_be_erased_or_quarantined_if_it_expired(status: MemoryStatus) -> None:
    assert REACHABLE[status] == ({E, Q} if status is X else {E})


def test_an_erased_memory_goes_nowhere() -> None:
    assert REACHABLE[E] == frozenset()


def test_nothing_comes_back_to_proposed() -> None:
    assert all(NEW not in targets for targets in TRANSITIONS.values())


def test_every_stored_status_is_reached_from_proposed() -> None:
    seen, waiting = {NEW}, [NEW]
    while waiting:
        new = REACHABLE[waiting.pop()] - seen
        seen |= new
        waiting += new
    assert seen == set(MemoryStatus)


def test_every_stored_status_can_be_erased() -> None:
    assert all(E in REACHABLE[status] for status in MemoryStatus if status not in {NEW, E})


def test_every_legal_move_passes_the_check() -> None:
    for source, action, target in LEGAL:
        check("m1", source, action, target)


def test_every_illegal_move_is_refused_with_memory_from_and_to() -> None:
    assert len(ILLEGAL) > 1000
    for source, action, target in ILLEGAL:
        with pytest.raises(InvalidTransitionError) as caught:
            check("m1", source, action, target)
        error = caught.value
        assert (error.memory_id, error.from_status, error.to_status) == ("m1", source, target)
        assert all(word in str(error) for word in ("m1", source.value, target.value))


@pytest.mark.parametrize(("source", "action"), sorted(EXPECTED))
def test_an_action_with_one_target_leads_there_and_a_note_stays(source: MemoryStatus, action: Action) -> None:
    targets = EXPECTED[source, action]
    if len(targets) == 1:
        assert {next_status("m1", source, action)} == targets


def test_next_status_of_an_illegal_pair_raises_with_memory_from_and_to() -> None:
    for source, action in product(MemoryStatus, Action):
        if (source, action) in EXPECTED:
            continue
        with pytest.raises(InvalidTransitionError) as caught:
            next_status("m1", source, action)
        assert caught.value.memory_id == "m1"
        assert caught.value.from_status is source
        if action in MOVES and len(MOVES[action][1]) == 1:
            assert {caught.value.to_status} == MOVES[action][1]


@pytest.mark.parametrize(("source", "action"), [(Q, Action.RELEASE), (NEW, Action.IMPORT)])
def test_an_action_with_several_targets_needs_them_named(source: MemoryStatus, action: Action) -> None:
    with pytest.raises(InvalidTransitionError):
        next_status("m1", source, action)
