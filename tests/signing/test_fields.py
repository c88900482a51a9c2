import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import PeerError
from flnet.signing.fields import Component, Covered, encoded, quoted, read_bytes, read_inputs
from flnet.signing.refusals import SignatureRefused

RFC = (
    'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
    ';created=1618884473;keyid="test-key-ed25519"'
)
names = st.from_regex(r"[a-z][a-z0-9_.*-]{0,8}", fullmatch=True)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
values = st.one_of(
    texts, st.binary(max_size=12), st.booleans().filter(bool), st.integers(-(10**15) + 1, 10**15 - 1)
)
params = st.dictionaries(names, values, max_size=3).map(lambda found: tuple(found.items()))
components = st.builds(Component, texts, params)
covereds = st.builds(Covered, st.lists(components, max_size=4, unique=True).map(tuple), params)


def test_the_standards_own_example_is_read_and_written_as_it_was() -> None:
    (name, covered), *more = read_inputs(RFC).items()

    assert name == "sig-b26" and not more
    assert covered.components[1] == Component("@method")
    assert covered.param("created") == 1618884473
    assert covered.param("nonce") is None
    assert f"{name}={covered}" == RFC


@pytest.mark.parametrize("more", ["", ";d=1", "x"])
def test_a_member_that_begins_like_the_one_before_is_read_to_its_end(more: str) -> None:
    text = f'a=("x");c=1, b=("x");c=1{more}'
    if more == "x":
        with pytest.raises(SignatureRefused):
            read_inputs(text)
    else:
        found = read_inputs(text)
        assert (str(found["a"]), str(found["b"])) == ('("x");c=1', f'("x");c=1{more}')


def test_parameters_of_components_are_read() -> None:
    covered = read_inputs('a=("signature";req;key="node")')["a"]

    assert covered.components == (Component("signature", (("req", True), ("key", "node"))),)


@given(st.dictionaries(names, covereds, min_size=1, max_size=3))
def test_what_is_written_is_read_back(inputs: dict[str, Covered]) -> None:
    text = ", ".join(f"{name}={covered}" for name, covered in inputs.items())

    assert read_inputs(text) == inputs


@given(st.dictionaries(names, st.binary(max_size=80), min_size=1, max_size=3))
def test_bytes_that_are_written_are_read_back(found: dict[str, bytes]) -> None:
    assert read_bytes(", ".join(f"{n}={encoded(raw)}" for n, raw in found.items()), "Signature") == found


@given(st.one_of(st.text(max_size=200), st.text(alphabet='ab=:;,()" \\?-01', max_size=60)))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_inputs, lambda t: read_bytes(t, "Signature")):
        try:
            found = read(text)
        except PeerError:
            continue
        assert found


@given(st.integers(0, len(RFC) - 1), st.characters(max_codepoint=255))
def test_a_changed_character_changes_what_is_read_or_is_refused(at: int, character: str) -> None:
    changed = RFC[:at] + character + RFC[at + 1 :]
    try:
        found = read_inputs(changed)
    except SignatureRefused:
        return
    assert ", ".join(f"{name}={covered}" for name, covered in found.items()) == changed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a=",
        'a=("x"',
        'a=("x" "x")',
        'a=("x"  "y")',
        'a=( "x")',
        'a=("x");b=1;b=2',
        'a=("x"), a=("y")',
        'a=("x"),b=("y")',
        'a=("x"), ',
        'a=("x") ',
        'a=("x");b=01',
        'a=("x");b=-0',
        'a=("x");b=1.5',
        'A=("x")',
        'a=("x\n")',
        'a=("é")',
        'a=("x");b=:YQ:',
        'a=("x");b=:YR==:',
        'a=("' + "x" * 5000 + '")',
    ],
)
def test_what_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(SignatureRefused):
        read_inputs(text)


def test_strings_are_escaped() -> None:
    assert quoted('a"b\\c') == '"a\\"b\\\\c"'
