"""Codec `arrays`: layout, what fits a schema, and what is refused."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dsrt_lightning.errors import CorruptCacheError, DecodeError, EncodeError
from dsrt_lightning.store.codecs.arrays_codec import ArrayField, ArraysCodec
from dsrt_lightning.store.codecs.arrays_layout import DTYPES


def encode(codec: ArraysCodec, sample: object) -> bytes:
    return b"".join(codec.encode(sample))


def decode(codec: ArraysCodec, record: bytes) -> dict[str, Any]:
    return ArraysCodec.from_schema(codec.schema(), "manifest.json").decode(memoryview(record))


# --- write then read is identity


@given(
    st.lists(
        st.sampled_from(sorted(DTYPES)).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_arrays_come_back_equal_fixed_or_ragged(arrays: list[np.ndarray], is_ragged: bool) -> None:
    sample = {f"f{i}": array for i, array in enumerate(arrays)}
    ragged = {name: range(array.ndim) for name, array in sample.items()} if is_ragged else None
    codec = ArraysCodec(ragged=ragged)
    decoded = decode(codec, encode(codec, sample))
    assert list(decoded) == list(sample)
    for name, array in sample.items():
        assert decoded[name].dtype == array.dtype
        assert decoded[name].shape == array.shape
        np.testing.assert_array_equal(decoded[name], array)


def test_arrays_are_read_only_views_of_the_record() -> None:
    codec = ArraysCodec()
    record = np.frombuffer(encode(codec, {"x": np.arange(6).reshape(2, 3)}), np.uint8)
    decoded = codec.decode(memoryview(record))
    assert np.shares_memory(decoded["x"], record)
    assert not decoded["x"].flags.writeable


def test_numbers_come_back_as_numpy_scalars() -> None:
    codec = ArraysCodec()
    decoded = decode(codec, encode(codec, {"b": True, "i": 3, "f": 0.5, "c": 1j, "n": np.float32(2.5)}))
    assert decoded == {"b": True, "i": 3, "f": 0.5, "c": 1j, "n": 2.5}
    types = [np.bool_, np.int64, np.float64, np.complex128, np.float32]
    assert [type(value) for value in decoded.values()] == types


def test_nested_dicts_come_back_nested_in_their_order() -> None:
    codec = ArraysCodec()
    sample = {"obs": {"image": np.ones(2), "pose": {"x": 1}}, "action": 2}
    assert [field.name for field in (codec.encode(sample), codec.fields)[1]] == ["obs.image", "obs.pose.x", "action"]
    decoded = decode(codec, encode(codec, sample))
    assert list(decoded) == ["obs", "action"]
    assert decoded["obs"]["pose"] == {"x": 1}
    np.testing.assert_array_equal(decoded["obs"]["image"], np.ones(2))


def test_keys_may_come_in_another_order_and_are_stored_in_the_first_samples() -> None:
    codec = ArraysCodec()
    assert encode(codec, {"a": 1, "b": 2.0}) == encode(codec, {"b": 2.0, "a": 1})


# --- layout


def test_fields_start_at_multiples_of_their_itemsize() -> None:
    record = encode(ArraysCodec(), {"a": np.uint8(1), "b": np.int32(2), "c": np.uint8(3), "d": np.complex128(4)})
    assert record == struct.pack("<B3xiB7xdd", 1, 2, 3, 4.0, 0.0)


def test_ragged_lengths_stand_first_in_the_order_of_fields_and_axes() -> None:
    codec = ArraysCodec(ragged={"b": [0], "a": [1]})
    record = encode(codec, {"a": np.ones((1, 3), np.uint8), "b": np.full((2, 1), 7, np.int16)})
    assert record == struct.pack("<QQ3Bx2h", 3, 2, 1, 1, 1, 7, 7)
    assert codec.fields == (
        ArrayField("a", np.dtype("uint8"), (1, None)),
        ArrayField("b", np.dtype("int16"), (None, 1)),
    )


def test_ragged_lengths_may_differ_from_sample_to_sample() -> None:
    codec = ArraysCodec(schema={"tokens": ("int32", (None,)), "label": ("int8", ())})
    for length in (3, 0, 5):
        decoded = decode(codec, encode(codec, {"tokens": np.arange(length, dtype=np.int32), "label": length}))
        np.testing.assert_array_equal(decoded["tokens"], np.arange(length))
        assert decoded["label"] == length


def test_schema_goes_through_json_unchanged() -> None:
    codec = ArraysCodec(ragged={"obs.x": [0]})
    codec.encode({"obs": {"x": np.zeros((2, 3), np.float16)}, "y": 1})
    schema = codec.schema()
    assert schema == {
        "fields": [
            {"name": "obs.x", "dtype": "float16", "shape": [None, 3]},
            {"name": "y", "dtype": "int64", "shape": []},
        ]
    }
    assert ArraysCodec.from_schema(schema, "").schema() == schema


# --- what fits


def test_big_endian_and_strided_arrays_are_stored_as_the_little_endian_ones() -> None:
    array = np.arange(12, dtype="<i4").reshape(3, 4)
    expected = encode(ArraysCodec(), {"x": array})
    assert encode(ArraysCodec(), {"x": array.astype(">i4")}) == expected
    assert encode(ArraysCodec(), {"x": np.asfortranarray(array)}) == expected
    assert encode(ArraysCodec(), {"x": np.repeat(array, 2, axis=1)[:, ::2]}) == expected


def test_objects_with_an_array_interface_are_stored_without_knowing_their_library() -> None:
    tensor_like = SimpleNamespace(__array__=lambda dtype=None, copy=None: np.arange(3))
    tensor = type("Tensor", (), {"__array__": staticmethod(tensor_like.__array__)})()
    codec = ArraysCodec()
    np.testing.assert_array_equal(decode(codec, encode(codec, {"x": tensor}))["x"], np.arange(3))


def test_tensors_are_stored() -> None:
    torch = pytest.importorskip("torch")
    codec = ArraysCodec()
    decoded = decode(codec, encode(codec, {"x": torch.arange(3), "y": torch.tensor(2.0)}))
    assert decoded["x"].tolist() == [0, 1, 2]
    assert decoded["y"] == np.float32(2)


def test_python_numbers_take_the_schemas_dtype() -> None:
    codec = ArraysCodec(schema={"u": ("uint8", ()), "f": ("float32", ()), "c": ("complex64", ())})
    assert encode(codec, {"u": 255, "f": 1, "c": 2}) == struct.pack("<B3xfff", 255, 1.0, 2.0, 0.0)[:16]


# --- what is refused, and what the user is told


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "x is a str; store numbers here, text in the metadata, or use codec 'pickle'"),
        (None, "x is a NoneType; store numbers here"),
        (b"jpeg", r"x is a bytes; store it as numpy\.frombuffer\(value, dtype='uint8'\)"),
        ([1, 2], r"x is a list; make it an array with the dtype you want, as in numpy\.asarray"),
        (np.array(["a"]), "x: the dtype is <U1 but must be one of bool, int8, .*, complex128; store numbers here"),
        (np.array([{}]), "x: the dtype is object but must be one of"),
        (np.datetime64("2020-01-01"), r"x: the dtype is datetime64\[D\] but must be one of"),
    ],
)
def test_value_that_is_no_array_is_refused_with_advice(value: object, message: str) -> None:
    with pytest.raises(EncodeError, match=f"^{message}"):
        ArraysCodec().encode({"x": value})


def test_array_interface_that_fails_is_refused_with_its_reason() -> None:
    class Broken:
        def __array__(self) -> None:
            raise RuntimeError("on the GPU")

    with pytest.raises(EncodeError, match="x: a Broken gives no array: on the GPU"):
        ArraysCodec().encode({"x": Broken()})


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (np.zeros(3), r"the sample is a ndarray but codec 'arrays' stores dicts of arrays; name its parts"),
        ({}, "the sample is an empty dict"),
        ({"a": {}}, "a is an empty dict, which would not come back"),
        ({"a": {1: 2}}, "the key 1 is not a non-empty string without '.'; rename it"),
        ({"a.b": 2}, r"the key 'a\.b' is not"),
        ({"": 2}, "the key '' is not"),
    ],
)
def test_sample_that_is_no_dict_of_names_is_refused(sample: object, message: str) -> None:
    with pytest.raises(EncodeError, match=f"^{message}"):
        ArraysCodec().encode(sample)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": np.zeros(3)}, r"the sample lacks \['y'\] and adds \[\]; every sample must have the fields \['x', 'y'\]"),
        ({"x": np.zeros(3), "z": 1}, r"the sample lacks \['y'\] and adds \['z'\]"),
        ({"x": np.zeros(3), "y": 1, "z": 1}, r"the sample lacks \[\] and adds \['z'\]"),
        ({"x": np.zeros(3, "f4"), "y": 1}, "x: the dtype is float32 but float64 in the schema; convert it"),
        ({"x": np.zeros(4), "y": 1}, r"x: the shape is \[4\] but \[3\] in the schema; .*ragged=\{'x': \[0\]\}"),
        ({"x": np.zeros((3, 1)), "y": 1}, r"x: the shape is \[3, 1\] but \[3\] in the schema; all samples must have"),
        ({"x": 1.0, "y": 1}, r"x: the shape is \[\] but \[3\] in the schema"),
        ({"x": np.zeros(3), "y": 1.5}, "y: the dtype is float64 but int64 in the schema"),
        ({"x": np.zeros(3), "y": True}, "y: the dtype is bool but int64 in the schema"),
        ({"x": np.zeros(3), "y": 2**63}, "y: 9223372036854775808 does not fit int64"),
        ({"x": np.zeros(3), "y": np.zeros(1, "i8")}, r"y: the shape is \[1\] but \[\] in the schema"),
    ],
)
def test_schema_that_changes_after_the_first_sample_is_refused(second: object, message: str) -> None:
    codec = ArraysCodec()
    codec.encode({"x": np.zeros(3), "y": 1})
    with pytest.raises(EncodeError, match=f"^{message}"):
        codec.encode(second)


def test_number_too_large_for_the_schemas_float_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"f: 1e\+39 does not fit float32"):
        ArraysCodec(schema={"f": ("float32", ())}).encode({"f": 1e39})


@pytest.mark.parametrize(
    ("ragged", "message"),
    [
        ({"x": [2]}, r"x: ragged axes \[2\] do not exist, the value has 2 axes, \[0, 2\)"),
        ({"z": [0]}, r"ArraysCodec\(ragged=\.\.\.\) names \['z'\] but the sample has \['x'\]"),
    ],
)
def test_ragged_axis_that_does_not_exist_is_refused(ragged: dict[str, list[int]], message: str) -> None:
    with pytest.raises(EncodeError, match=f"^{message}"):
        ArraysCodec(ragged=ragged).encode({"x": np.zeros((2, 2))})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "there is no field"),
        ({"x": ("datetime64[s]", ())}, r"x has dtype datetime64\[s\] but must have one of bool, int8"),
        ({"x": ("int8", (-1,))}, "'x' has the length -1"),
        ({"x": ("int8", ()), "x.y": ("int8", ())}, r"'x' cannot be both a field and the parent of 'x\.y'"),
        ({"x.": ("int8", ())}, r"'x\.' is empty or has an empty part"),
    ],
)
def test_given_schema_that_makes_no_sense_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^ArraysCodec: .*{message}"):
        ArraysCodec(schema=schema)


def test_schema_and_ragged_together_are_refused() -> None:
    with pytest.raises(ValueError, match="give schema or ragged"):
        ArraysCodec(schema={"x": ("int8", ())}, ragged={})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (None, "must have a list 'fields' and nothing else, found"),
        ([], "there is no field"),
        ([{"name": "x", "dtype": "int8"}], r"fields\[0\] must have 'name', 'dtype' and 'shape'"),
        ([{"name": 1, "dtype": "int8", "shape": []}], r"fields\[0\]\.name must be a string, found 1"),
        ([{"name": "x", "dtype": "object", "shape": []}], r"fields\[0\]\.dtype is 'object' but must be one of bool"),
        ([{"name": "x", "dtype": "int8", "shape": [1.0]}], r"fields\[0\]\.shape must be a list of integers and nulls"),
        ([{"name": "x", "dtype": "int8", "shape": [True]}], r"fields\[0\]\.shape must be a list of integers and nulls"),
        ([{"name": "x", "dtype": "int8", "shape": [-1]}], "'x' has the length -1"),
        ([{"name": "x", "dtype": "int8", "shape": [1] * 33}], "'x' has 33 axes but at most 32 are possible"),
        (
            [{"name": "x", "dtype": "int64", "shape": [2**61]}],
            f"with 'x' the record takes {2**64} bytes but .* {2**62}",
        ),
        ([{"name": "x", "dtype": "int8", "shape": [0, 2**40, 2**40]}], f"with 'x' the record takes {2**80} bytes"),
        (
            [{"name": name, "dtype": "int8", "shape": [2**61 + 1]} for name in "xy"],
            f"with 'y' the record takes {2**62 + 2} bytes",
        ),
        ([{"name": "x", "dtype": "int8", "shape": []}] * 2, "'x' is there 2 times"),
    ],
)
def test_stored_schema_that_makes_no_sense_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(CorruptCacheError, match=rf"^a/manifest\.json: codec\.schema.*{message}"):
        ArraysCodec.from_schema({"fields": fields}, "a/manifest.json")


def test_record_of_another_size_is_refused_with_both_sizes() -> None:
    codec = ArraysCodec()
    record = encode(codec, {"x": np.zeros(3)})
    with pytest.raises(DecodeError, match="the record has 23 bytes but its fields take 24"):
        codec.decode(memoryview(record)[:-1])


@pytest.mark.parametrize("length", [2, 4, 2**40, 2**64 - 1])
def test_ragged_length_that_the_record_does_not_hold_is_refused(length: int) -> None:
    codec = ArraysCodec(ragged={"x": [0]})
    record = bytearray(encode(codec, {"x": np.zeros(3)}))
    struct.pack_into("<Q", record, 0, length)
    with pytest.raises(DecodeError, match=f"the record has 32 bytes but its fields take {8 + 8 * length}"):
        codec.decode(memoryview(record))


@pytest.mark.parametrize("lengths", [(2**62, 0), (0, 2**62), (0, 2**64 - 1)])
def test_lengths_beside_an_empty_axis_that_no_array_has_are_refused(lengths: tuple[int, int]) -> None:
    codec = ArraysCodec(ragged={"x": [0, 1]})
    record = bytearray(encode(codec, {"x": np.zeros((0, 0))}))
    struct.pack_into("<QQ", record, 0, *lengths)
    with pytest.raises(
        DecodeError, match=rf"'x' has the shape \[{lengths[0]}, {lengths[1]}\], which no array can have"
    ):
        codec.decode(memoryview(record))


def test_record_shorter_than_its_ragged_lengths_is_refused() -> None:
    codec = ArraysCodec(ragged={"x": [0]})
    codec.encode({"x": np.zeros(3)})
    with pytest.raises(DecodeError, match="the record has 7 bytes but its ragged lengths take 8"):
        codec.decode(memoryview(bytes(7)))


# --- one codec a source


def test_fresh_codec_keeps_options_and_forgets_the_schema() -> None:
    codec = ArraysCodec(ragged={"x": [0]})
    codec.encode({"x": np.zeros(3)})
    fresh = codec.fresh()
    with pytest.raises(ValueError, match="not known before the first sample"):
        _ = fresh.fields
    fresh.encode({"x": np.zeros(3, np.int8)})
    assert fresh.fields == (ArrayField("x", np.dtype("int8"), (None,)),)


def test_codec_accepts_the_stored_schemas_that_its_options_could_have_made() -> None:
    def schema(*shape: int | None) -> dict[str, Any]:
        return {"fields": [{"name": "x", "dtype": "int8", "shape": list(shape)}]}

    assert ArraysCodec().accepts(schema(3))
    assert not ArraysCodec().accepts(schema(None))
    assert ArraysCodec(ragged={"x": [0]}).accepts(schema(None, 3))
    assert not ArraysCodec(ragged={"x": [0]}).accepts(schema(3))
    assert ArraysCodec({"x": ("int8", (3,))}).accepts(schema(3))
    assert not ArraysCodec({"x": ("int8", (3,))}).accepts(schema(4))
