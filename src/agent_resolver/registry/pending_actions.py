"""The actions that wait for a person, in the store."""

from collections import Counter
from functools import partial
from typing import Final

from msgspec import Struct, structs

from agent_resolver.core.approval import MAX_OPEN_QUESTIONS
from agent_resolver.schema.audit import Record
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import PENDING
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.port import Snapshot, Store, Transaction
from agent_resolver.storage.wait_queue import end_waits

_PAGE: Final = 500
_ROOM: Final = MAX_OPEN_QUESTIONS // 2
"""The number of open questions of one caller up to which another one may be put off."""


class TooManyQuestions(Exception):
    """A question that was put off cannot be asked: its caller has as many open as one caller may have."""


class Asked(Struct, frozen=True):
    """The questions that were asked under one binding."""

    newest: PendingAction | None
    count: int
    has_room: bool = False
    """True if the next question may be put off: none was asked, and the caller has few others open."""


class PendingActions:
    """Keeps questions and their answers; each change is recorded in the trail with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._put_off: Counter[str] = Counter()
        """By caller: the number of questions that were put off here and are not in the store yet."""

    async def ask(
        self,
        action: PendingAction,
        record: Record | None = None,
        *,
        is_bounded: bool = True,
        writer: JointWriter | None = None,
        may_wait: bool = False,
    ) -> PendingAction | None:
        """Keep an action and record it, or return the one with its id that is there already.

        Args:
            action: The question.
            record: What the trail keeps of it.
            is_bounded: False for a question that must be asked, however many the caller has open.
            writer: Writes it with what the run that asks has put off.
            may_wait: True if the run that asks writes next that it waits for this question, so that both can be kept
                together. That write raises `TooManyQuestions` if the caller has too many open by then.

        Returns:
            None if the caller who asks has as many open questions as one caller may have.
        """
        # An answer cannot come with the question.
        asked = structs.replace(
            action,
            answer=None,
            reason=None,
            answered_by=None,
            answered_at=None,
            used_at=None,
        )

        def keep(transaction: Transaction) -> PendingAction | None:
            # At the bound only new questions are refused: one that was asked before is
            # returned as it is.
            if is_bounded and _count_open(transaction, asked) >= MAX_OPEN_QUESTIONS:
                return transaction.get(PENDING, asked.id)
            # The id comes from the binding, so of two processes that ask the same only
            # the first one adds a row.
            if not transaction.put(PENDING, asked, only_new=True):
                return transaction.get(PENDING, asked.id)
            if record is not None:
                transaction.append(record)
            return asked

        if writer is None:
            return await self._store.write(keep)
        if not (may_wait and writer.puts_off):
            return await writer.write(keep)

        def keep_or_refuse(transaction: Transaction) -> None:
            if keep(transaction) is None:
                raise TooManyQuestions

        # The question counts from now on, though the store learns of it later: `look`
        # must not promise its room twice.
        self._put_off[asked.requester] += 1
        try:
            # A person must not be asked about an answer of a model that was not kept.
            on_end = partial(self._forget_put_off, asked.requester)
            await writer.put_off(keep_or_refuse, on_end=on_end, needs_all_before=True)
        except TooManyQuestions:
            return None
        return asked

    def _forget_put_off(self, requester: str) -> None:
        self._put_off[requester] -= 1
        if not self._put_off[requester]:
            del self._put_off[requester]

    async def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        found = await self._store.read(
            lambda snapshot: snapshot.find(PENDING, {"binding": binding})
        )
        newest = found[-1] if found else None
        return newest, len(found)

    async def look(self, binding: str, requester: str) -> Asked:
        """The last action under a binding, and whether a caller may put another one off, from one state of the store.

        The write that a question waits for counts again. That a caller must have plenty of room here only makes it
        unlikely that a run has to go back because the questions of other processes came in between.
        """

        def find(snapshot: Snapshot) -> Asked:
            found = snapshot.find(PENDING, {"binding": binding})
            if found:
                return Asked(found[-1], len(found))
            unanswered = snapshot.find(
                PENDING, {"requester": requester, "answer": None}, limit=_ROOM
            )
            return Asked(
                None, 0, has_room=len(unanswered) + self._put_off[requester] < _ROOM
            )

        return await self._store.read(find)

    async def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        return await self._store.read(lambda snapshot: snapshot.get(PENDING, action_id))

    async def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        actions: dict[str, PendingAction] = {}
        last: str | None = None
        # Page by page: a long read must not keep the event loop from everything else.
        # By id: where the last action of a page was removed meanwhile, the next page
        # begins at the start.
        while page := await self._page(last):
            actions |= {action.id: action for action in page}
            last = page[-1].id
        return sorted(actions.values(), key=lambda action: (action.asked_at, action.id))

    async def _page(self, last: str | None) -> list[PendingAction]:
        after = None if last is None else (last,)

        def find(snapshot: Snapshot) -> list[PendingAction]:
            return snapshot.find(PENDING, after=after, limit=_PAGE)

        return await self._store.read(find)

    async def unanswered_of(self, requester: str) -> list[PendingAction]:
        """The actions of a requester without an answer, oldest first; some may have expired."""

        def find(snapshot: Snapshot) -> list[PendingAction]:
            return snapshot.find(PENDING, {"requester": requester, "answer": None})

        return sorted(
            await self._store.read(find),
            key=lambda action: (action.asked_at, action.id),
        )

    async def answer(self, answered: PendingAction, record: Record) -> bool:
        """Keep the answer of an action and record it; False when it was answered before."""

        def keep(transaction: Transaction) -> bool:
            asked = transaction.get(PENDING, answered.id)
            if asked is None or not asked.is_open:
                return False
            given = structs.replace(
                asked,
                answer=answered.answer,
                reason=answered.reason,
                answered_by=answered.answered_by,
                answered_at=answered.answered_at,
                # Only the approver needed the arguments.
                content=None,
            )
            transaction.put(PENDING, given)
            transaction.append(record)
            # Whatever waits for the answer, in whichever process, may go on.
            transaction.wake(PENDING.name, answered.id)
            end_waits(transaction, answered.id)
            return True

        return await self._store.write(keep)

    async def forget_expired(self, now: str) -> None:
        """Remove the arguments of questions that expired without an answer."""
        actions = await self.all()
        expired = [
            each.id
            for each in actions
            if each.content is not None and each.state(now) != "open"
        ]

        def forget(transaction: Transaction) -> None:
            for action_id in expired:
                # Another process may have pruned it meanwhile.
                if action := transaction.get(PENDING, action_id):
                    transaction.put(PENDING, structs.replace(action, content=None))

        # A store is written to only where there is something to remove: looking takes
        # no write lock.
        if expired:
            await self._store.write(forget)


def _count_open(snapshot: Snapshot, asked: PendingAction) -> int:
    """The number of questions that the caller of `asked` has open."""
    unanswered = snapshot.find(PENDING, {"requester": asked.requester, "answer": None})
    # A question that expired takes no room, although it has no answer.
    return sum(each.state(asked.asked_at) == "open" for each in unanswered)
