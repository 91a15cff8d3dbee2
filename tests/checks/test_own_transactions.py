"""Transactions of drctl itself are not attributed to an application."""

from drctl.kafka import journal_reader, reconcile_copier
from drctl.model.survey import of_applications


def test_own_transactional_ids_are_recognized() -> None:
    own = [each.transactional_id("main") for each in (journal_reader, reconcile_copier)]
    assert of_applications([*own, "orders-tx"]) == ("orders-tx",)
