"""Policies of other projects: TensorFlow's checkpoints, read without it, and turned into checkpoints of ours."""

import itertools
import json
import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.importing.actors import import_policy, largest_difference, layout
from orbitcc.agents.importing.crc32c import MASK, masked_crc32c
from orbitcc.agents.importing.tensorflow import read_bundle
from orbitcc.common.errors import OrbitccError
from orbitcc.eval import contenders
from tests.commands.shell import called

RELEASED = os.environ.get("ORBITCC_RELEASED", "")
"""A folder with astraea/ and orca/, each with the two files of the released TensorFlow checkpoint, and aurora/, the
released SavedModel."""


def refused(*arguments):
    done = called(*map(str, arguments))
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") == 1
    return done.stderr


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def block(entries):
    """A block of a LevelDB table, with a restart for the first key only."""
    out, last = b"", b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b), min(len(key), len(last)))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return out + struct.pack("<II", 0, 1)


def sealed(made):
    """A block in the file: not compressed, with its checksum."""
    return made + b"\0" + struct.pack("<I", masked_crc32c(made + b"\0"))


def footer(*places):
    """The end of an index: offset and size of the meta index and of the index."""
    return b"".join(map(varint, places)).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def entry(offset, value):
    """A BundleEntryProto: dtype, shape, offset, size and checksum."""
    dims = b"".join(b"\x12" + varint(len(d)) + d for d in (b"\x08" + varint(n) for n in value.shape))
    dtype = {"float32": 1, "int64": 9}[value.dtype.name]
    return (
        b"\x08" + varint(dtype) + b"\x12" + varint(len(dims)) + dims
        + b"\x20" + varint(offset) + b"\x28" + varint(value.nbytes)
        + b"\x35" + struct.pack("<I", masked_crc32c(value.tobytes()))
    )  # fmt: skip


def write_bundle(folder, variables):
    """A checkpoint as TensorFlow's BundleWriter lays it out."""
    data, entries = b"", [(b"", b"\x08\x01\x1a\x02\x08\x01")]  # one data file, version 1
    for name in sorted(variables):
        value = np.asarray(variables[name])
        entries.append((name.encode(), entry(len(data), value)))
        data += value.tobytes()
    half = len(entries) // 2
    table, handles = b"", []
    for part in (entries[:half], entries[half:]):
        made = block(part)
        handles.append((part[-1][0], varint(len(table)) + varint(len(made))))
        table += sealed(made)
    places = []
    for made in (block([]), block(handles)):  # the meta index, and the index
        places += [len(table), len(made)]
        table += sealed(made)
    table += footer(*places)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.index").write_bytes(table)
    (folder / "model.data-00000-of-00001").write_bytes(data)
    return folder


def variables(widths, rng, gamma=False):
    """Of an actor with batch normalisation after every dense layer but the last, beside a critic."""
    found = {"critic/fc1/kernel": rng.normal(size=(3, 4)), "global_step": np.array(21_531)}
    for k, (before, units) in enumerate(itertools.pairwise(widths), start=1):
        last = k == len(widths) - 1
        dense = "actor/dense" if last else f"actor/fc{k}"
        found |= {
            f"{dense}/kernel": rng.normal(size=(before, units)) / before**0.5,
            f"{dense}/bias": rng.normal(size=units),
        }
        if not last:
            norm = "actor/batch_normalization" + (f"_{k - 1}" if k > 1 else "")
            found |= {f"{norm}/beta": rng.normal(size=units), f"{norm}/moving_mean": rng.normal(size=units)}
            found[f"{norm}/moving_variance"] = rng.uniform(1e-4, 2.0, units)
            found |= {f"{norm}/gamma": rng.uniform(0.5, 2, units)} if gamma else {}
    return {name: np.asarray(x, dtype=np.int64 if name == "global_step" else np.float32) for name, x in found.items()}


def original(found, x, layers):
    """The network as TensorFlow computes it: dense, batch normalisation with eps 0.001, leaky ReLU of 0.2, tanh."""
    for k in range(1, layers):
        norm = "actor/batch_normalization" + (f"_{k - 1}" if k > 1 else "")
        x = x @ found[f"actor/fc{k}/kernel"] + found[f"actor/fc{k}/bias"]
        x = (x - found[f"{norm}/moving_mean"]) / np.sqrt(found[f"{norm}/moving_variance"] + 1e-3)
        x = x * found.get(f"{norm}/gamma", 1.0) + found[f"{norm}/beta"]
        x = np.where(x > 0, x, 0.2 * x)
    return np.tanh(x @ found["actor/dense/kernel"] + found["actor/dense/bias"])


ASTRAEA, ORCA = (50, 256, 128, 64, 1), (70, 256, 256, 1)


def test_a_bundle_is_read_as_it_was_written(tmp_path):
    written = variables(ASTRAEA, np.random.default_rng(1))
    read = read_bundle(write_bundle(tmp_path, written))
    assert read.keys() == written.keys()
    for name, value in written.items():
        assert read[name].dtype == value.dtype
        np.testing.assert_array_equal(read[name], value)
    np.testing.assert_array_equal(read_bundle(tmp_path / "model")["actor/fc1/bias"], written["actor/fc1/bias"])
    np.testing.assert_array_equal(read_bundle(tmp_path / "model.index")["actor/fc1/bias"], written["actor/fc1/bias"])


@pytest.mark.parametrize(("name", "widths", "gamma"), [("astraea", ASTRAEA, False), ("orca", ORCA, True)])
def test_an_imported_policy_acts_as_the_original(name, widths, gamma, tmp_path):
    rng = np.random.default_rng(2)
    found = variables(widths, rng, gamma)
    made = import_policy(name, write_bundle(tmp_path / "tf", found), tmp_path / "mine", source="a test", licence="MIT")
    x = rng.uniform(0, 1, (100, widths[0])).astype(np.float32)
    expected = original(found, x.astype(np.float64), len(widths) - 1)
    assert np.ptp(expected) > 0.1  # not all the same
    assert np.abs(expected).max() < 0.9999  # nor at the ends
    np.testing.assert_allclose(made.policy.act(x), expected, atol=2e-6)
    card = made.card
    assert (card.interval_ms, card.squash, card.training, card.imported.licence) == (20.0, "tanh", None, "MIT")
    assert card.imported.files.keys() == {"model.index", "model.data-00000-of-00001"}
    entered = contenders.from_policy(str(made.path))
    assert (entered.label, entered.family) == ("mine", name)


def test_a_reference_is_compared_and_what_differs_is_not_kept(tmp_path):
    rng = np.random.default_rng(3)
    found = variables(ORCA, rng)
    folder = write_bundle(tmp_path / "tf", found)
    x = rng.uniform(0, 1, (10, 70)).astype(np.float32)
    actions = original(found, x, 3)
    np.savez(tmp_path / "right.npz", observations=x, actions=actions)
    np.savez(tmp_path / "wrong.npz", observations=x, actions=actions + 0.01)
    command = ("import", "orca", folder, "--out", tmp_path / "mine", "--reference")
    assert "largest difference from the reference: " in called(*map(str, command), str(tmp_path / "right.npz")).stdout
    assert largest_difference(checkpoint.load(tmp_path / "mine"), tmp_path / "wrong.npz") == pytest.approx(
        0.01, abs=1e-5
    )
    said = refused(*command[:4], tmp_path / "other", "--reference", tmp_path / "wrong.npz")
    assert "--reference: '0.01'" in said
    assert "within 0.0001" in said
    assert not (tmp_path / "other").exists()


def test_any_dense_actor_has_a_layout_of_its_own(tmp_path):
    own = tmp_path / "mine.toml"
    own.write_text(
        'description = "x"\npreset = "aurora"\nscope = "pi/model"\nsquash = "clip"\n'
        'layers = [{ dense = "shared", activation = "tanh" }, { dense = "out" }]\n'
    )
    rng = np.random.default_rng(4)
    found = {f"pi/model/{name}/{part}": rng.normal(size=shape).astype(np.float32)
             for name, part, shape in (("shared", "kernel", (30, 16)), ("shared", "bias", 16),
                                       ("out", "kernel", (16, 1)), ("out", "bias", 1))}  # fmt: skip
    made = import_policy(str(own), write_bundle(tmp_path / "tf", found), tmp_path / "policy")
    x = rng.normal(size=(5, 30)).astype(np.float32)
    hidden = np.tanh(x @ found["pi/model/shared/kernel"] + found["pi/model/shared/bias"])
    expected = np.clip(hidden @ found["pi/model/out/kernel"] + found["pi/model/out/bias"], -1, 1)
    np.testing.assert_allclose(made.policy.act(x), expected, atol=1e-5)
    own.write_text('description = "x"\npreset = "aurora"\nlayers = []\n')
    with pytest.raises(OrbitccError, match="layers"):
        layout(str(own))


def aurora(rng, kernel="w", bias="b"):
    """The variables that PPO1 of Stable-Baselines 2 saves: 30-32-16-1, the old policy and the critic beside it."""
    shapes = {"pi_fc0": (30, 32), "pi_fc1": (32, 16), "pi": (16, 1), "vf_fc0": (30, 32), "q": (16, 1)}
    made = {}
    for scope, (name, shape) in itertools.product(("model", "oldpi/model"), shapes.items()):
        made[f"{scope}/{name}/{kernel}"] = rng.normal(size=shape) / shape[0] ** 0.5
        made[f"{scope}/{name}/{bias}"] = rng.normal(size=shape[1])
    return {name: x.astype(np.float32) for name, x in made.items()} | {"model/pi/logstd": np.zeros((1, 1), np.float32)}


def acted(found, x, kernel="w", bias="b"):
    for name in ("pi_fc0", "pi_fc1"):
        x = np.tanh(x @ found[f"model/{name}/{kernel}"] + found[f"model/{name}/{bias}"])
    return x @ found[f"model/pi/{kernel}"] + found[f"model/pi/{bias}"]


@pytest.mark.parametrize("names", [("w", "b"), ("weights", "biases"), ("kernel", "bias"), ("W", "B")])
def test_the_variables_of_a_layer_are_found_under_the_names_that_libraries_give_them(names, tmp_path):
    rng = np.random.default_rng(8)
    found = aurora(rng, *names)
    folder = write_bundle(tmp_path / "saved" / "variables", found)  # as in a SavedModel
    x = rng.uniform(0, 2, (200, 30)).astype(np.float32)
    original = acted(found, x.astype(np.float64), *names)
    assert (np.abs(original) > 1).any()
    np.savez(tmp_path / "outputs.npz", observations=x, actions=original)
    said = called("import", "aurora", str(folder.parent), "--out", str(tmp_path / "mine"), "--reference",
                  str(tmp_path / "outputs.npz"))  # fmt: skip
    assert "largest difference from the reference: " in said.stdout
    made = checkpoint.load(tmp_path / "mine")
    np.testing.assert_allclose(made.policy.act(x), np.clip(original, -1, 1), atol=2e-6)
    assert (made.card.interval_rtts, made.card.training_range.rate_mbps) == (0.5, (1.2, 6.0))


def test_a_layout_names_the_variables_of_a_layer(tmp_path):
    rng = np.random.default_rng(9)
    names = {"pi_fc0": ("Variable", "Variable_1"), "pi_fc1": ("Variable_2", "Variable_3"), "pi": ("Variable_4", "V")}
    old = aurora(rng)
    found = {
        new: old[f"model/{layer}/{part}"] for layer, pair in names.items() for new, part in zip(pair, "wb", strict=True)
    }
    rows = [f'{{ dense = "", kernel = "{w}", bias = "{b}", activation = "tanh" }}' for w, b in names.values()]
    own = tmp_path / "mine.toml"
    own.write_text(
        f'description = "x"\npreset = "aurora"\nsquash = "clip"\nlayers = [{", ".join(rows)}]\n'.replace(
            '"V", activation = "tanh"', '"V"'
        )
    )
    made = import_policy(str(own), write_bundle(tmp_path / "tf", found), tmp_path / "policy")
    x = rng.uniform(0, 2, (20, 30)).astype(np.float32)
    np.testing.assert_allclose(made.policy.act(x), np.clip(acted(old, x), -1, 1), atol=2e-6)


def test_variables_under_two_names_and_under_none_are_refused(tmp_path):
    found = aurora(np.random.default_rng(10))
    two = write_bundle(tmp_path / "two", found | {"model/pi_fc1/kernel": found["model/pi_fc1/w"]})
    with pytest.raises(OrbitccError, match="model/pi_fc1/kernel and model/pi_fc1/w'.*name it in the layout"):
        import_policy("aurora", two, tmp_path / "mine")
    del found["model/pi/b"]
    with pytest.raises(OrbitccError, match=r"model/pi/bias \(or b, biases, B\)'.*\(.*model/pi/w, "):
        import_policy("aurora", write_bundle(tmp_path / "none", found), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "model.index").write_bytes(b"x" * 100), "no table of LevelDB"),
        (lambda f: (f / "model.index").write_bytes((f / "model.index").read_bytes()[40:]), "damaged"),
        (lambda f: (f / "model.data-00000-of-00001").write_bytes(b"x" * 64), "the data file ends before"),
        (lambda f: (f / "model.data-00000-of-00001").unlink(), "No such file"),
        (lambda f: (f / "model.index").unlink(), "0 files \\*.index"),
    ],
)
def test_damaged_files_are_refused_and_nothing_is_written(damage, said, tmp_path):
    folder = write_bundle(tmp_path / "tf", variables(ASTRAEA, np.random.default_rng(5)))
    damage(folder)
    with pytest.raises(OrbitccError, match=said):
        import_policy("astraea", folder, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def masked(crc):
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [  # RFC 3720, B.4; the check value of CRC-32C; no bytes
        (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C), (b"123456789", 0xE3069283), (b"", 0),
    ],
)  # fmt: skip
def test_checksums_are_those_of_rfc_3720(data, crc):
    assert masked_crc32c(data) == masked(crc)


@pytest.mark.parametrize("length", [1, 3, 65_536, 65_537, 150_000])
def test_checksums_of_long_data_are_those_of_bit_after_bit(length):
    data, crc = np.random.default_rng(length).bytes(length), 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    assert masked_crc32c(data) == masked(crc ^ 0xFFFFFFFF)


def test_every_flipped_bit_is_refused(tmp_path):
    folder = write_bundle(tmp_path, {"a/kernel": np.ones((2, 3), np.float32), "b": np.arange(2)})
    for name, said in (
        ("model.index", "damaged"),
        ("model.data-00000-of-00001", "checksum of the variable (a/kernel|b) "),
    ):
        whole = (folder / name).read_bytes()
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            (folder / name).write_bytes(flipped)
            with pytest.raises(OrbitccError, match=said):
                read_bundle(folder)
        (folder / name).write_bytes(whole)
    assert read_bundle(folder).keys() == {"a/kernel", "b"}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("actor/fc1/bias", lambda x: x[:1], r"actor/fc1/bias of shape \[1\].*shape \[256\]"),
        ("actor/fc2/kernel", lambda x: x.T, r"actor/fc2/kernel of shape \[128, 256\].*shape \[256, any\]"),
        ("actor/dense/kernel", lambda x: x[:, 0], r"actor/dense/kernel of shape \[64\].*shape \[64, any\]"),
        ("actor/batch_normalization/moving_mean", lambda x: x[:1], r"moving_mean of shape \[1\].*shape \[256\]"),
        ("actor/batch_normalization_1/moving_variance", lambda x: -x, "moving_variance with a negative value"),
    ],
)
def test_variables_of_another_shape_are_refused(name, change, said, tmp_path):
    found = variables(ASTRAEA, np.random.default_rng(7))
    found[name] = np.ascontiguousarray(change(found[name]))
    folder = write_bundle(tmp_path / "tf", found)
    with pytest.raises(OrbitccError, match=said):
        import_policy("astraea", folder, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_checkpoint_of_another_project_is_refused_by_name(tmp_path):
    folder = write_bundle(tmp_path / "tf", variables(ORCA, np.random.default_rng(6)))
    with pytest.raises(OrbitccError, match="actor/fc3/kernel.*a variable of the checkpoint"):
        import_policy("astraea", folder, tmp_path / "mine")
    assert "unknown name 'astrea'" in refused("import", "astrea", folder, "--out", tmp_path / "mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "a new or empty folder" in refused("import", "orca", folder, "--out", tmp_path / "full")


@pytest.mark.parametrize(("name", "least_mbps"), [("astraea", 85), ("orca", 85), ("aurora", 75)])
def test_the_released_policies_fill_a_link(name, least_mbps, tmp_path):
    folder = Path(RELEASED) / name
    if not RELEASED or not folder.exists():
        pytest.skip("CI has no weights of others: after a change of the import, run it by hand (CONTRIBUTING.md)")
    import_policy(name, folder, tmp_path / name)
    if name == "aurora":  # its graph, computed from the variables as they are
        x = np.random.default_rng(11).uniform(0, 2, (1000, 30)).astype(np.float32)
        expected = np.clip(acted(read_bundle(folder), x), -1, 1)
        np.testing.assert_allclose(checkpoint.load(tmp_path / name).policy.act(x), expected, atol=1e-5)
    said = called("run", "dumbbell", "--policy", str(tmp_path / name), "--json").stdout
    assert json.loads(said)["flows"][0]["goodput_mbps"] > least_mbps


def _overlapping():
    """8,000 handles to one block of 100 kB."""
    made = block([(f"{k:06}".encode(), b"") for k in range(10_000)])
    handles = block([(f"{k:06}".encode(), varint(0) + varint(len(made))) for k in range(8_000)])
    return sealed(made) + handles, len(made) + 5


def _many():
    """5,000 variables of the same kB."""
    value = entry(0, np.zeros(250, np.float32))
    return block([(f"{k:06}".encode(), value) for k in range(5_000)]), None


HOSTILE = {
    "variables that overlap": _many,
    "blocks that overlap": _overlapping,
    "more than 10 bytes": lambda: (block([(b"a", b"\x08" + b"\xff" * 400_000)]), None),
    "more than 1,000 bytes": lambda: (block([(b"a" * k, b"") for k in range(1, 2_000)]), None),
    "at most 1 MB": lambda: (bytes(2_000_000), 0),
    "out of order": lambda: (block([(b"", b"")] * 100_000), None),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_a_hostile_index_is_refused_at_once(tmp_path, reason):
    table, at = HOSTILE[reason]()
    if at is None:  # the block is one of data
        size = len(table)
        table, at = sealed(table), size + 5
        table += block([(b"z", varint(0) + varint(size))])
    size = len(table) - at
    table, meta = table[:at] + sealed(table[at:]), block([])
    table += sealed(meta) + footer(len(table), len(meta), at, size)
    (tmp_path / "model.index").write_bytes(table)
    (tmp_path / "model.data-00000-of-00001").write_bytes(bytes(1000))
    began = time.process_time()
    with pytest.raises(OrbitccError, match=reason):
        read_bundle(tmp_path)
    assert time.process_time() - began < 1.0
