"""The example of RFC 7677, and broker responses that must be rejected."""

import pytest

from drctl.kafka.sasl import SaslError, Scram, plain

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
VERDICT = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(password: str = "pencil", username: str = "user") -> Scram:
    return Scram("SCRAM-SHA-256", username, password, NONCE)


def test_the_example_of_the_standard() -> None:
    scram = exchange()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(CHALLENGE) == PROOF
    scram.check(VERDICT)


def test_a_broker_without_the_password_is_rejected() -> None:
    scram = exchange("another")
    scram.final(CHALLENGE)
    with pytest.raises(SaslError, match="failed to prove that it knows the password"):
        scram.check(VERDICT)


@pytest.mark.parametrize("verdict", [b"", b"v=", b"x=1", b"v=AAAA"])
def test_an_invalid_verdict_is_rejected(verdict: bytes) -> None:
    scram = exchange()
    scram.final(CHALLENGE)
    with pytest.raises(SaslError, match="failed to prove"):
        scram.check(verdict)


def test_a_refusal_has_a_reason() -> None:
    scram = exchange()
    scram.final(CHALLENGE)
    with pytest.raises(SaslError, match="invalid-proof"):
        scram.check(b"e=invalid-proof")


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (CHALLENGE.replace(b"rOprN", b"xxxxx"), "another client"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another client"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "asks for 1 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=99999999"), "asks for 99999999 iterations"),
        (CHALLENGE.replace(b",i=4096", b""), "no iterations"),
        (CHALLENGE.replace(b"W22Z", b"?22Z"), "not Base64"),
        (b"\xff", "is not text"),
    ],
)
def test_invalid_challenges(challenge: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        exchange().final(challenge)


def test_names_are_escaped_and_passwords_are_not() -> None:
    assert exchange(username="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"
    assert plain("bob", "ä=,") == "\0bob\0ä=,".encode()
