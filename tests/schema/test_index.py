"""What stands for the address of a server that is started, not called."""

from hashlib import sha256

from agent_resolver.schema import Launch


def test_the_endpoint_of_a_started_server_covers_its_whole_launch_record() -> None:
    launch = Launch(command="acme", args=("--stdio",), env=("TOKEN",))
    canonical = '{"args":["--stdio"],"command":"acme","env":["TOKEN"],"transport":"stdio"}'

    assert launch.endpoint == f"launch:sha256-{sha256(canonical.encode()).hexdigest()}"


def test_leaving_a_default_out_is_the_same_as_writing_it() -> None:
    assert Launch(command="a").endpoint == Launch(command="a", args=(), env=(), transport="stdio").endpoint


def test_every_part_of_a_launch_record_changes_its_endpoint() -> None:
    records = [
        Launch(command="a"),
        Launch(command="b"),
        Launch(command="a", args=("x",)),
        Launch(command="a", args=("",)),
        Launch(command="a", env=("x",)),
        Launch(command="a", transport="streamable-http"),
    ]

    assert len({record.endpoint for record in records}) == len(records)
