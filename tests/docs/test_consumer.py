"""The page on the consumer states the settings that the code uses."""

from drctl.kafka import timestamps_consumer
from drctl.kafka.timestamps_consumer import TimestampSettings, split
from tests.docs.pages import page, rows


def test_every_setting_and_its_default() -> None:
    documented = {
        row[0].strip("`"): row[1]
        for row in rows(page("docs/howto/python-consumer.md").section("## Settings"))
    }
    assert documented.pop("timestamps.producer.*") == "as the consumer"
    defaults = TimestampSettings({})
    fields = timestamps_consumer.NUMBERS
    assert documented == {name: str(getattr(defaults, field)) for name, field in fields.items()}
    assert all(split({name: int(value)}) for name, value in documented.items())
