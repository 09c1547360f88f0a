"""What waits for a person, in the store."""

from msgspec import structs

from agent_resolver.core.approval import MAX_OPEN_QUESTIONS
from agent_resolver.schema.audit import Record
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import PENDING
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.port import Snapshot, Store, Transaction
from agent_resolver.storage.wait_queue import end_waits

_PAGE = 500


class PendingActions:
    """Keeps questions and their answers; each change is recorded in the trail with it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ask(
        self,
        action: PendingAction,
        record: Record | None = None,
        *,
        is_bounded: bool = True,
        writer: JointWriter | None = None,
    ) -> PendingAction | None:
        """Keep an action and record it, or return the one with its id that is there already.

        Args:
            action: The question.
            record: What the trail keeps of it.
            is_bounded: False for a question that must be asked, however many the caller has open.
            writer: Writes it with what the run that asks has put off.

        Returns:
            None if the caller who asks has as many open questions as one caller may have.
        """
        # An answer cannot come with the question.
        asked = structs.replace(action, answer=None, reason=None, answered_by=None, answered_at=None, used_at=None)

        def keep(transaction: Transaction) -> PendingAction | None:
            if known := transaction.get(PENDING, asked.id):
                return known
            if is_bounded and _count_open(transaction, asked) >= MAX_OPEN_QUESTIONS:
                return None
            transaction.put(PENDING, asked)
            if record is not None:
                transaction.append(record)
            return asked

        return await (writer or self._store).write(keep)

    async def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        found = await self._store.read(lambda snapshot: snapshot.find(PENDING, {"binding": binding}))
        newest = found[-1] if found else None
        return newest, len(found)

    async def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        return await self._store.read(lambda snapshot: snapshot.get(PENDING, action_id))

    async def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        actions: dict[str, PendingAction] = {}
        last: str | None = None
        # Page by page: a long read must not keep the event loop from everything else. By id: where the last action of
        # a page was removed meanwhile, the next page begins at the start.
        while page := await self._page(last):
            actions |= {action.id: action for action in page}
            last = page[-1].id
        return sorted(actions.values(), key=lambda action: (action.asked_at, action.id))

    async def _page(self, last: str | None) -> list[PendingAction]:
        after = None if last is None else (last,)

        def find(snapshot: Snapshot) -> list[PendingAction]:
            return snapshot.find(PENDING, after=after, limit=_PAGE)

        return await self._store.read(find)

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
        expired = [each.id for each in actions if each.content is not None and each.state(now) != "open"]

        def forget(transaction: Transaction) -> None:
            for action_id in expired:
                # Another process may have pruned it meanwhile.
                if action := transaction.get(PENDING, action_id):
                    transaction.put(PENDING, structs.replace(action, content=None))

        # A store is written to only where there is something to remove: looking takes no write lock.
        if expired:
            await self._store.write(forget)


def _count_open(snapshot: Snapshot, asked: PendingAction) -> int:
    """The number of questions that the caller of `asked` has open."""
    unanswered = snapshot.find(PENDING, {"requester": asked.requester, "answer": None})
    return sum(each.state(asked.asked_at) == "open" for each in unanswered)
