# SPDX-License-Identifier: Apache-2.0
"""Deltas from Python: made, applied to a model, applied in place, and followed in a folder."""

import asyncio
import shutil

import ml_dtypes
import numpy
import pytest
from conftest import write_safetensors

import ringload


def train(arrays, seed):
    """Changes about 2 % of the elements of each array by their low bit."""
    random = numpy.random.default_rng(seed)
    following = {}
    for name, array in arrays.items():
        bits = array.copy().view(numpy.uint16)
        bits[random.random(bits.shape) < 0.02] ^= 1
        following[name] = bits.view(array.dtype)
    return following


@pytest.fixture
def versions(tmp_path):
    """Four versions as arrays, and the folder that has v0 and three deltas."""
    random = numpy.random.default_rng(36)
    made = [
        {
            f"layers.{i}.weight": random.normal(size=(64, 300)).astype(ml_dtypes.bfloat16)
            for i in range(5)
        }
    ]
    folder = tmp_path / "versions"
    folder.mkdir()
    base = folder / "v0.safetensors"
    write_safetensors(base, made[0], {"step": "0"})
    for number in range(1, 4):
        made.append(train(made[-1], number))
        full = tmp_path / f"full{number}.safetensors"
        write_safetensors(full, made[number], {"step": str(number)})
        saved = ringload.save_delta(folder / f"v{number}.delta.zt", base, full, sync=False)
        assert saved.nbytes == (folder / f"v{number}.delta.zt").stat().st_size
        assert saved.tensors_sparse == 5
        assert 0 < saved.elements_changed < saved.elements * 0.03
        base = full
    return made, folder


def assert_equal(tensors, arrays):
    found = tensors.numpy() if isinstance(tensors, ringload.Model) else tensors
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_only_functions_of_versions_take_a_version_folder(versions, tmp_path):
    made, folder = versions
    into = {name: array.copy() for name, array in made[0].items()}
    group = ringload.make_thread_ranks(1)[0]
    with ringload.Loader() as loader:
        for use in (
            lambda: loader.open(folder),
            lambda: loader.start(folder),
            lambda: loader.stream(folder),
            lambda: loader.fill(folder, into),
            lambda: loader.group_load(group, folder),
            lambda: loader.save_delta(tmp_path / "d.zt", folder, folder),
            lambda: ringload.open(str(folder)),
            lambda: next(ringload.stream(folder)),
            lambda: ringload.fill(folder, into),
        ):
            with pytest.raises(ringload.UsageError, match=r"a version folder.*load_version\(\)"):
                use()
    assert_equal(ringload.load(folder), made[3])
    with pytest.raises(ringload.UsageError) as failed:
        ringload.load(folder, dtype="f32")
    assert failed.value.kind == "usage"
    with pytest.raises(TypeError, match="version"):
        ringload.load_version(folder, True)


def test_apply_gives_the_next_version_and_the_old_one_stays(versions):
    made, folder = versions
    old = ringload.load(folder / "v0.safetensors")
    new = old.apply(folder / "v1.delta.zt")
    assert_equal(old, made[0])
    assert_equal(new, made[1])
    assert new.metadata == {"step": "1"}
    assert_equal(new.apply(folder / "v2.delta.zt", check_unchanged=False), made[2])
    with pytest.raises(ringload.Error, match="v3.delta.zt"):
        new.apply(folder / "v3.delta.zt")
    assert_equal(new, made[1])


def test_versions_may_be_lists_of_files_or_checkpoints(versions, tmp_path):
    made, folder = versions
    names = list(made[1])
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    write_safetensors(files[0], {name: made[1][name] for name in names[:2]})
    write_safetensors(files[1], {name: made[1][name] for name in names[2:]})
    delta = tmp_path / "x.delta.zt"
    with ringload.Loader() as loader, loader.open(folder / "v0.safetensors").result() as base:
        loader.save_delta(delta, base, files).result()
        new = loader.apply(loader.load(base).result(), delta).result()
    assert {name: new[name].numpy().tobytes() for name in new} == {
        name: array.tobytes() for name, array in made[1].items()
    }


def test_update_changes_numpy_arrays_in_place(versions):
    made, folder = versions
    arrays = {name: array.copy() for name, array in made[0].items()}
    addresses = [array.ctypes.data for array in arrays.values()]
    done = ringload.update(arrays, folder / "v1.delta.zt")
    assert done.tensors_changed == 5
    assert done.bytes_changed == sum(array.nbytes for array in arrays.values())
    assert_equal(arrays, made[1])
    with pytest.raises(ringload.Error, match="v1.delta.zt"):
        ringload.update(arrays, folder / "v1.delta.zt")
    assert_equal(arrays, made[1])
    assert addresses == [array.ctypes.data for array in arrays.values()]


def test_update_refuses_memory_that_is_not_changed_in_place(versions):
    made, folder = versions
    arrays = {name: array.copy() for name, array in made[0].items()}
    first = next(iter(arrays))
    swapped = {**arrays, first: arrays[first].view(numpy.uint16).astype(">u2")}
    with pytest.raises(TypeError, match=first):
        ringload.update(swapped, folder / "v1.delta.zt")
    with pytest.raises(ringload.Error, match=first):
        ringload.update({**arrays, first: arrays[first].T}, folder / "v1.delta.zt")
    del arrays[first]
    with pytest.raises(ringload.Error, match=first):
        ringload.update(arrays, folder / "v1.delta.zt")
    assert all(arrays[name].tobytes() == made[0][name].tobytes() for name in arrays)


def test_update_changes_torch_tensors_in_place(versions):
    torch = pytest.importorskip("torch")
    made, folder = versions
    tensors = {
        name: torch.from_numpy(array.view(numpy.int16).copy()).view(torch.bfloat16)
        for name, array in made[0].items()
    }
    ringload.update(tensors, folder / "v1.delta.zt")
    for name, array in made[1].items():
        assert tensors[name].view(torch.int16).numpy().tobytes() == array.tobytes()


def test_load_of_a_folder_gives_the_newest_version(versions):
    made, folder = versions
    assert_equal(ringload.load(folder), made[3])
    assert_equal(ringload.load_version(folder), made[3])
    for number in range(4):
        assert_equal(ringload.load_version(folder, number), made[number])
    with pytest.raises(ringload.UsageError, match="dtype"):
        ringload.load(folder, dtype="f32")
    with pytest.raises(ringload.SourceNotFoundError, match="v4.delta.zt"):
        ringload.load_version(folder, 4)


@pytest.mark.parametrize("fault", ["missing", "reordered", "damaged", "other base"])
def test_a_bad_link_is_an_error_that_names_it(versions, fault):
    made, folder = versions
    links = [folder / f"v{number}.delta.zt" for number in range(4)]
    bad = "v2.delta.zt"
    if fault == "missing":
        links[2].unlink()
    elif fault == "reordered":
        texts = [links[2].read_bytes(), links[3].read_bytes()]
        links[2].write_bytes(texts[1])
        links[3].write_bytes(texts[0])
    elif fault == "damaged":
        text = bytearray(links[2].read_bytes())
        text[len(text) // 3] ^= 4
        links[2].write_bytes(text)
    else:
        bad = "v1.delta.zt"
        other = train(made[0], 99)
        write_safetensors(folder / "v0.safetensors", other)
    with pytest.raises(ringload.Error, match=bad):
        ringload.load(folder)


def test_follow_gives_each_version_as_it_appears(versions, tmp_path):
    made, folder = versions
    followed = tmp_path / "followed"

    async def run():
        found = []
        async for number, model in ringload.follow(followed, period=0.01):
            assert_equal(model, made[number])
            found.append(number)
            if number == 3:
                return found
            following = f"v{number + 1}.delta.zt"
            shutil.copy(folder / following, followed / "part")
            (followed / "part").rename(followed / following)

    async def publish_first():
        await asyncio.sleep(0.05)
        followed.mkdir()
        shutil.copy(folder / "v0.safetensors", followed / "part")
        (followed / "part").rename(followed / "v0.safetensors")

    async def both():
        return (await asyncio.gather(run(), publish_first()))[0]

    assert asyncio.run(both()) == [0, 1, 2, 3]


def test_follow_changes_arrays_in_place_and_takes_a_full_version_after_a_gap(versions, tmp_path):
    made, folder = versions
    arrays = {name: numpy.zeros_like(array) for name, array in made[0].items()}
    (folder / "v3.delta.zt").rename(tmp_path / "v3.delta.zt")

    async def run():
        found = []
        async for number, model in ringload.follow(folder, period=0.01, into=arrays):
            assert model is None
            assert_equal(arrays, made[number])
            found.append(number)
            if number == 2:
                write_safetensors(tmp_path / "part", made[3])
                (tmp_path / "part").rename(folder / "v3.safetensors")
            else:
                return found

    assert asyncio.run(run()) == [2, 3]


def test_follow_raises_at_a_missing_link_and_the_last_version_stays(versions):
    made, folder = versions
    (folder / "v2.delta.zt").unlink()
    (folder / "v3.delta.zt").rename(folder / "later")
    held = []

    async def run():
        async for number, model in ringload.follow(folder, period=0.01):
            held.append((number, model))
            (folder / "later").rename(folder / "v3.delta.zt")

    with pytest.raises(ringload.SourceNotFoundError, match="v2.delta.zt"):
        asyncio.run(run())
    assert [number for number, _ in held] == [1]
    assert_equal(held[0][1], made[1])


def test_a_delta_of_zt_files_has_new_tensors_of_all_types(tmp_path):
    base = {"a": numpy.ones(3, numpy.float32)}
    new = {
        "f8": numpy.arange(3).astype(ml_dtypes.float8_e4m3fn),
        "complex": numpy.arange(2) * (1 + 1j),
        "bool": numpy.array([True, False]),
    }
    ringload.save(tmp_path / "base.zt", base)
    ringload.save(tmp_path / "next.zt", {**base, **new})
    ringload.save_delta(tmp_path / "d.zt", tmp_path / "base.zt", tmp_path / "next.zt")
    newer = ringload.load(tmp_path / "base.zt").apply(tmp_path / "d.zt")
    for name, array in new.items():
        assert newer[name].numpy().dtype == array.dtype
        assert newer[name].numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("digest", ["crc32c", "sha256"])
def test_no_delta_of_a_version_that_has_not_its_own_digests(tmp_path, digest):
    for name, array in {"base": numpy.arange(100.0), "next": numpy.arange(100.0) + 1}.items():
        ringload.save(tmp_path / f"{name}.zt", {"x": array}, digest=digest)
    path = tmp_path / "d.zt"
    ringload.save_delta(path, tmp_path / "base.zt", tmp_path / "next.zt")
    path.unlink()
    with ringload.open(tmp_path / "next.zt") as checkpoint:
        offset = checkpoint["x"].info.offset
    damaged = bytearray((tmp_path / "next.zt").read_bytes())
    damaged[offset + 80] ^= 1
    (tmp_path / "next.zt").write_bytes(damaged)
    for pair in (("base", "next"), ("next", "base")):
        with pytest.raises(ringload.Error, match=f"next.zt: tensor 'x': its {digest} is"):
            ringload.save_delta(path, *(tmp_path / f"{name}.zt" for name in pair))
        assert not path.exists()


def test_a_delta_does_not_replace_its_versions(tmp_path):
    paths = [tmp_path / "base.zt", tmp_path / "next.zt"]
    for at, path in enumerate(paths):
        ringload.save(path, {"x": numpy.arange(100.0) + at})
    before = [path.read_bytes() for path in paths]
    (tmp_path / "link.zt").symlink_to(paths[0])
    for path in (*paths, tmp_path / "link.zt"):
        with pytest.raises(ringload.UsageError, match="would replace a file of a version"):
            ringload.save_delta(path, *paths)
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.parametrize("encoding", ["xor", "overwrite"])
@pytest.mark.parametrize("checksum", [None, "xxh3-128", "adler32"])
def test_a_delta_with_an_index(tmp_path, encoding, checksum):
    old = {"a": numpy.arange(5000, dtype=numpy.float32), "b": numpy.ones((3, 4), dtype=numpy.int8)}
    new = {"a": old["a"].copy(), "b": old["b"]}
    new["a"][::50] += 1
    ringload.save(tmp_path / "base.safetensors", old)
    ringload.save(tmp_path / "next.safetensors", new)
    folder = tmp_path / "weight_v000001"
    saved = ringload.save_delta(folder, tmp_path / "base.safetensors",
                                tmp_path / "next.safetensors", indexed=encoding,
                                checksum=checksum)  # fmt: skip
    assert saved.tensors_unchanged == 1
    assert (folder / "model.safetensors.index.json").exists()
    with ringload.Loader() as loader:
        base = loader.load(tmp_path / "base.safetensors").result()
        assert numpy.array_equal(loader.apply(base, folder).result()["a"].numpy(), new["a"])
    memory = {name: tensor.copy() for name, tensor in old.items()}
    ringload.update(memory, folder)
    assert numpy.array_equal(memory["a"], new["a"])
    (tmp_path / "run" / "weight_v000000").mkdir(parents=True)
    shutil.copy(tmp_path / "base.safetensors", tmp_path / "run/weight_v000000/model.safetensors")
    shutil.move(folder, tmp_path / "run")
    assert numpy.array_equal(ringload.load(tmp_path / "run")["a"].numpy(), new["a"])
    with ringload.Loader() as loader, pytest.raises(ringload.UsageError, match="version folder"):
        loader.open(tmp_path / "run").result()


def test_a_checksum_needs_an_index(tmp_path):
    with pytest.raises(ringload.UsageError, match="indexed"):
        ringload.save_delta(tmp_path / "d", "a", "b", checksum="adler32")
    with pytest.raises(ringload.UsageError, match="checksum"):
        ringload.save_delta(tmp_path / "d", "a", "b", indexed="xor", checksum="blake3")


def test_backward_is_refused_after_an_update_of_its_tensors(versions):
    torch = pytest.importorskip("torch")
    made, folder = versions
    tensors = ringload.load(folder / "v0.safetensors").torch()
    untouched = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    loss = sum((untouched[name] * tensor).sum() for name, tensor in tensors.items())
    ringload.update(tensors, folder / "v1.delta.zt")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    versions_before = [tensor._version for tensor in tensors.values()]
    with pytest.raises(ringload.Error):  # The delta of another version: nothing changes.
        ringload.update(tensors, folder / "v3.delta.zt")
    assert [tensor._version for tensor in tensors.values()] == versions_before
