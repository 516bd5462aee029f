"""The `dsrt` command, as a person at a terminal meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
import torch

from dsrt_lightning import DatasetRTDataModule, open_dataset
from dsrt_lightning.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, digits_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, which looks like the repository with the digits cached."""
    for name in ("configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(digits_root / "caches", tmp_path / "caches")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Result:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def dsrt(folder: Path, capfd: pytest.CaptureFixture[str]) -> object:
    def run(*arguments: str) -> Result:
        capfd.readouterr()
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *capfd.readouterr())

    return run


def flip_byte(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("command", [module.NAME for module in COMMANDS])
def test_help_ends_with_a_command_that_works(dsrt, command: str) -> None:
    shown = dsrt(command, "--help")
    assert shown.code == 0
    program, *arguments = shown.out.rstrip().splitlines()[-1].split()
    assert program == "dsrt"
    if command == "trace":
        save_checkpoint(arguments[1], arguments[3])
    if command == "repair":
        shutil.copytree(arguments[1], arguments[3])
    assert dsrt(*arguments).code == 0


def save_checkpoint(config: str, path: str) -> None:
    """Save what `dsrt trace` reads of a checkpoint, before the first batch of a run."""
    datamodule = DatasetRTDataModule(config)
    datamodule.setup("fit")
    datamodule.train_dataloader()
    progress = {"epoch_loop.batch_progress": {"total": {"processed": 0}}}
    Path(path).parent.mkdir()
    torch.save({"loops": {"fit_loop": progress}, "DatasetRTDataModule": datamodule.state_dict()}, path)


def test_help_of_the_command_itself_ends_with_a_command_that_works(dsrt) -> None:
    program, *arguments = dsrt("--help").out.rstrip().splitlines()[-1].split()
    assert program == "dsrt"
    assert dsrt(*arguments).code == 0


class TestBuild:
    def test_table_becomes_a_cache_named_like_the_file(self, dsrt, folder: Path) -> None:
        pl.DataFrame({"x": [1.5, 2.5], "word": ["a", "b"]}).write_csv("pairs.csv")
        result = dsrt("build", "pairs.csv", "--root", "out", "--quiet")
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("out/pairs: 2 records, 16 bytes stored in 16, ")
        sample = open_dataset("out/pairs")[1]
        assert sample.data == {"x": 2.5}
        assert sample.metadata["word"] == "b"

    def test_image_folder_keeps_encoded_bytes(self, dsrt, folder: Path) -> None:
        (folder / "pets/cat").mkdir(parents=True)
        (folder / "pets/cat/a.jpg").write_bytes(b"jpeg bytes")
        assert dsrt("build", "pets", "--root", "out", "--quiet").code == 0
        sample = open_dataset("out/pets")[0]
        assert sample.data == b"jpeg bytes"
        assert sample.metadata["label"] == "cat"

    def test_options_reach_the_cache(self, dsrt) -> None:
        pl.DataFrame({"x": range(1000), "y": ["a"] * 1000}).write_parquet("t.parquet")
        options = "--name other --payload x --metadata y --compression zstd --level 5 --shard-bytes 1KiB"
        assert dsrt("build", "t.parquet", "--root", "out", "--quiet", *options.split()).code == 0
        shown = dsrt("inspect", "out/other").out
        assert "arrays: x int64" in shown
        assert "y string" in shown
        assert "zstd level 5" in shown
        assert len(list(Path("out/other/shards").iterdir())) > 1

    def test_second_build_reuses_and_a_changed_table_is_refused(self, dsrt) -> None:
        pl.DataFrame({"x": [1]}).write_csv("t.csv")
        assert dsrt("build", "t.csv", "--root", "out", "--quiet").code == 0
        assert dsrt("build", "t.csv", "--root", "out", "--quiet").out == "out/t: is there already, 1 records\n"
        pl.DataFrame({"x": [2]}).write_csv("t.csv")
        changed = dsrt("build", "t.csv", "--root", "out", "--quiet")
        assert changed.code == 1
        assert "fingerprint" in changed.err

    def test_one_failing_source_does_not_stop_the_others(self, dsrt) -> None:
        pl.DataFrame({"x": [1, None]}).write_parquet("bad.parquet")
        pl.DataFrame({"x": [1, 2]}).write_parquet("good.parquet")
        result = dsrt("build", "bad.parquet", "good.parquet", "--root", "out", "--quiet")
        assert result.code == 1
        assert result.out.startswith("out/good: 2 records")
        assert "bad.parquet: column 'x' is null in row 1" in result.err
        assert "--payload on the command line" in result.err
        assert not Path("out/bad").exists()

    def test_two_tables_of_one_name_are_refused_before_anything_is_built(self, dsrt) -> None:
        pl.DataFrame({"x": [1]}).write_csv("t.csv")
        pl.DataFrame({"x": [1]}).write_parquet("t.parquet")
        result = dsrt("build", "t.csv", "t.parquet", "--root", "out", "--quiet")
        assert (result.code, Path("out").exists()) == (2, False)
        assert "sources 1 and 2 would both be the cache 't' of out" in result.err

    def test_ctrl_c_is_one_line_and_exit_code_130(self, dsrt, monkeypatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("dsrt_lightning.store.build.build_caches", interrupted)
        pl.DataFrame({"x": [1]}).write_csv("t.csv")
        result = dsrt("build", "t.csv", "--root", "out", "--quiet")
        assert (result.code, result.err) == (130, "dsrt build: interrupted\n")

    def test_column_that_goes_nowhere_is_told(self, dsrt) -> None:
        pl.DataFrame({"x": [1], "file": [b"1"]}).write_parquet("t.parquet")
        result = dsrt("build", "t.parquet", "--root", "out", "--quiet")
        assert result.err == "t: column 'file' is left out, name it in --payload to keep it\n"

    def test_file_of_another_format_is_named(self, dsrt) -> None:
        Path("t.parquet").write_bytes(b"x,y\n1,2\n")
        result = dsrt("build", "t.parquet", "--root", "out")
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert "t.parquet: cannot be read as .parquet: " in result.err

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["nothing.csv"], "nothing.csv: there is no such file or folder; a SOURCE is a table (.parquet .csv"),
            (["no.such:Source"], "no.such:Source: cannot be imported: No module named 'no'"),
            (["configs/digits_rare.yaml"], "'.yaml' is not the suffix of a table"),
            (["examples.digits.build:Digits", "--name", "a"], "a source in Python, which --name does not go with"),
            (["examples", "--codec", "arrays"], "examples: is a folder of images, which --codec does not go with"),
            (["a.csv", "b.csv", "--name", "c"], "--name names one cache but there are 2 sources"),
            (["a.csv", "--compression", "zstd", "--level", "99"], "the level is 99 but must be in"),
            (["a.csv", "--shard-bytes", "big"], "'big' is not a size such as 65536, 64KiB or 1GiB"),
        ],
    )
    def test_wrong_command_is_one_line_and_exit_code_2(self, dsrt, arguments: list[str], text: str) -> None:
        result = dsrt("build", "--root", "out", "--quiet", *arguments)
        assert result.code == 2
        assert text in result.err
        assert "Traceback" not in result.err
        assert not Path("out").exists()


class TestInspect:
    def test_shows_what_the_cache_holds(self, dsrt) -> None:
        out = dsrt("inspect", "caches/digits", "--rows", "2").out
        assert "records       1,797" in out
        assert "arrays: image float32 [8, 8], label int64" in out
        assert "label int64, split string, quality float64, source string" in out
        assert sum("optdigits" in line for line in out.splitlines()) == 2

    def test_missing_cache_is_one_line_and_exit_code_1(self, dsrt) -> None:
        result = dsrt("inspect", "caches/nothing")
        assert result.code == 1
        assert result.err.count("\n") == 1
        assert "caches/nothing: there is no such directory; build the cache or correct the path" in result.err


class TestVerify:
    def test_intact_cache_is_told_so(self, dsrt) -> None:
        result = dsrt("verify", "caches/digits", "--quiet")
        assert (result.code, result.out) == (0, "caches/digits: complete and intact\n")

    def test_flipped_payload_byte_is_named_with_shard_and_record(self, dsrt) -> None:
        flip_byte(Path("caches/digits/shards/000000.bin"), 5 * 272 + 3)
        result = dsrt("verify", "caches/digits", "--quiet")
        assert result.code == 1
        assert "caches/digits/shards/000000.bin: CRC32C is" in result.out
        assert "record 5" in result.out

    @pytest.mark.parametrize("name", ["index.bin", "metadata.arrow", "manifest.json"])
    def test_flipped_byte_of_another_file_is_named(self, dsrt, name: str) -> None:
        flip_byte(Path("caches/digits", name), 100)
        result = dsrt("verify", "caches/digits", "--quiet")
        assert result.code == 1
        assert f"caches/digits/{name}" in result.out

    def test_one_broken_cache_does_not_hide_another(self, dsrt) -> None:
        result = dsrt("verify", "caches/none", "caches/digits", "--quiet")
        assert result.code == 1
        assert "caches/none: there is no such directory" in result.out
        assert "caches/digits: complete and intact" in result.out


class TestRepair:
    @pytest.fixture(autouse=True)
    def _backup(self, folder: Path) -> None:
        shutil.copytree("caches", "backup")

    def test_broken_file_is_replaced_and_named(self, dsrt) -> None:
        flip_byte(Path("caches/digits/shards/000000.bin"), 1000)
        result = dsrt("repair", "caches/digits", "--from", "backup/digits", "--quiet")
        assert (result.code, result.err) == (0, "")
        assert result.out == "caches/digits/shards/000000.bin: replaced\ncaches/digits: complete and intact\n"
        assert dsrt("verify", "caches/digits", "--quiet").code == 0

    def test_nothing_broken_is_told_so(self, dsrt) -> None:
        result = dsrt("repair", "caches/digits", "--from", "backup/digits", "--quiet")
        assert (result.code, result.out) == (0, "caches/digits: nothing to repair\n")

    def test_what_is_broken_in_both_is_named_and_exit_code_1(self, dsrt) -> None:
        for root in ("caches", "backup"):
            flip_byte(Path(root, "digits/shards/000000.bin"), 1000)
        result = dsrt("repair", "caches/digits", "--from", "backup/digits", "--quiet")
        assert result.code == 1
        assert "backup/digits/shards/000000.bin: has " in result.out
        assert "intact" not in result.out

    def test_mirror_of_another_cache_is_one_line_and_exit_code_1(self, dsrt) -> None:
        pl.DataFrame({"x": [1]}).write_csv("t.csv")
        assert dsrt("build", "t.csv", "--root", "out", "--quiet").code == 0
        result = dsrt("repair", "caches/digits", "--from", "out/t", "--quiet")
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert "has identity" in result.err


class TestPreview:
    def test_shows_rows_after_each_rule_and_class_shares(self, dsrt) -> None:
        result = dsrt("preview", "configs/digits_rare_balanced.yaml")
        assert result.code == 0
        rows = [line.split() for line in result.out.splitlines()]
        assert ["all", "records", "1797"] in rows
        assert ["keep:", "split", "=", "'train'", "1437"] in rows
        assert ["weight:", "{balance:", "label}", "1302"] in rows
        assert ["8", "174", "6", "9.7%", "10.0%"] in rows

    def test_by_chooses_the_class_column(self, dsrt) -> None:
        assert "classes of split" in dsrt("preview", "configs/digits_rare.yaml", "--by", "split").out

    def test_payload_is_not_read(self, dsrt) -> None:
        shutil.rmtree("caches/digits/shards")
        assert dsrt("preview", "configs/digits_rare.yaml").code == 0

    def test_empty_split_is_named(self, dsrt) -> None:
        Path("empty.yaml").write_text("caches: [caches/digits]\ntrain: {rules: [{keep: label > 9}]}\n")
        result = dsrt("preview", "empty.yaml")
        assert (result.code, result.err) == (1, "empty.yaml: train: no row is left; relax its rules\n")

    @pytest.mark.parametrize(
        ("yaml", "text"),
        [
            ("caches: [caches/digits]\nsede: 1\n", "wrong.yaml: sede: unknown key, did you mean 'seed'?"),
            ("caches: [caches/digits]\ntrain: {rules: [{keap: x}]}\n", "wrong.yaml: train.rules[0]"),
            ("caches: [caches/digits]\ntrain: {rules: [{keep: colour = 1}]}\n", "wrong.yaml: train.rules[0].keep"),
        ],
    )
    def test_wrong_config_is_named_with_its_place_and_exit_code_2(self, dsrt, yaml: str, text: str) -> None:
        Path("wrong.yaml").write_text(yaml)
        result = dsrt("preview", "wrong.yaml")
        assert result.code == 2
        assert text in result.err
        assert "Traceback" not in result.err


def test_traceback_is_shown_on_request(dsrt) -> None:
    with pytest.raises(FileNotFoundError):
        dsrt("inspect", "caches/nothing", "--traceback")


def test_unknown_command_is_a_usage_error(dsrt) -> None:
    assert dsrt("biuld").code == 2
