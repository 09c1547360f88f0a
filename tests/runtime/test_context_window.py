"""How much of a conversation a model is shown."""

from collections.abc import Sequence

from hypothesis import given, strategies as st

from agent_resolver.runtime import (
    ChatRequest,
    ContextPolicy,
    MediaBlock,
    Message,
    Preview,
    ToolCall,
    ToolOffer,
    assistant_message,
    estimate_tokens,
    fit_request,
    system_message,
    tool_message,
    user_message,
)

PREVIEW = Preview(threshold_tokens=50, max_chars=40, max_lines=2)
SYSTEM = system_message("Be brief.")


def fitted(messages: Sequence[Message], room: int, recent: int = 2, tools: tuple[ToolOffer, ...] = ()) -> list[Message]:
    """The messages of a request of which this many tokens are left for the conversation."""
    policy = ContextPolicy(max_context_tokens=room + 10, max_output_tokens=10, min_recent_messages=recent)
    return list(fit_request(ChatRequest(model="m", messages=tuple(messages), tools=tools), policy, PREVIEW).messages)


def call(number: int) -> tuple[Message, Message]:
    """A call and its result."""
    asked = assistant_message("", (ToolCall(f"c{number}", "read", "{}"),))
    return asked, tool_message(f"c{number}", f"result {number}")


def test_a_message_takes_four_tokens_and_one_for_every_four_bytes() -> None:
    assert estimate_tokens([user_message("12345678")]) == 6
    assert estimate_tokens([user_message("ää")]) == 5
    media = MediaBlock(modality="image", media_type="image/png", data="x" * 10_000)
    assert estimate_tokens([Message("user", (media,))]) == 4 + 50 // 4


def test_what_fits_stays_as_it_is() -> None:
    messages = [SYSTEM, user_message("one"), *call(1), user_message("two")]

    assert fitted(messages, estimate_tokens(messages)) == messages


def test_the_oldest_messages_are_left_out_and_system_messages_stay() -> None:
    messages = [SYSTEM, user_message("a" * 400), user_message("b" * 40), user_message("c" * 40)]

    assert fitted(messages, 60) == [SYSTEM, *messages[2:]]


def test_a_call_leaves_together_with_its_result() -> None:
    messages = [user_message("a"), *call(1), *call(2), user_message("b"), user_message("c")]

    assert fitted(messages, estimate_tokens(messages) - 4) == [*call(1), *call(2), *messages[-2:]]
    assert fitted(messages, estimate_tokens(messages) - 5) == [*call(2), *messages[-2:]]


def test_large_results_are_cut_before_anything_is_left_out() -> None:
    asked, _ = call(1)
    large = tool_message("c1", "line\n" * 100)
    messages = [user_message("a"), asked, large, user_message("b"), user_message("c")]

    shown = fitted(messages, 80)

    assert [message.role for message in shown] == [message.role for message in messages]
    assert shown[2].text == "line\nline\n\n[490 further characters are left out]"


def test_the_newest_messages_stay_even_if_they_do_not_fit() -> None:
    messages = [user_message("a" * 400), user_message("b" * 400), user_message("c" * 400)]

    assert fitted(messages, 20, recent=2) == messages[1:]


def test_tools_take_room_as_well() -> None:
    messages = [user_message("a" * 40), user_message("b"), user_message("c")]
    offer = ToolOffer("read", "Read a note. " * 20, {"type": "object"})

    assert fitted(messages, 40) == messages
    assert fitted(messages, 40, tools=(offer,)) == messages[1:]


@given(kinds=st.lists(st.sampled_from(["user", "call", "two"]), max_size=20), room=st.integers(1, 200), data=st.data())
def test_no_result_is_shown_without_its_call_and_no_call_without_its_result(
    kinds: list[str], room: int, data: st.DataObject
) -> None:
    messages: list[Message] = [SYSTEM]
    for number, kind in enumerate(kinds):
        if kind == "user":
            messages.append(user_message(f"say {number}"))
        elif kind == "call":
            messages += call(number)
        else:
            calls = (ToolCall(f"c{number}a", "read", "{}"), ToolCall(f"c{number}b", "read", "{}"))
            messages += [
                assistant_message("", calls),
                tool_message(f"c{number}a", "1"),
                tool_message(f"c{number}b", "2"),
            ]
    recent = data.draw(st.integers(0, 5))

    shown = fitted(messages, room, recent)

    asked = [each.id for message in shown for each in message.calls]
    answered = [message.call_id for message in shown if message.role == "tool"]
    assert asked == answered
    assert shown[0] == SYSTEM
    assert shown[1:] == messages[len(messages) - len(shown) + 1 :]
