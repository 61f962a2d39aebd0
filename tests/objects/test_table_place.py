"""Folders with odd names: whatever a lake can be in works, and what it can't be in is refused at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.cli.doctor.look import look_at_machine
from lakemq.jobs.maintenance.command import run_job
from lakemq.jobs.process.run import run_jobs
from lakemq.jobs.tables.holes import ERASED, Hole, append_holes, read_holes
from lakemq.model.errors import LakeUnreadable, SettingsError
from lakemq.objects.table_place import check_fit, delta_place, sql_place
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.delta_files import DeltaFiles
from lakemq.storage.lake.delta_log import entry_of

FIT = "o'dd #1 {a,b} st*r? 100% ä: \"$` <x>&=@~+;!"
UNFIT = ("la%20ke", "%%5b", "l[x", "x]e", "a^b", "a|b", "a\\b", "a\nb", "a\x7fb", "\udcff")


def test_a_table_is_where_it_is_meant_to_be_whatever_its_name_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_holes(tmp_path / FIT, "a", [Hole(3, 5)], ERASED)
    append_holes(tmp_path / FIT, "a", [Hole(7, 7)], ERASED)
    assert sorted(read_holes(tmp_path / FIT, "a")) == [Hole(3, 5), Hole(7, 7)]
    assert [each.name for each in tmp_path.iterdir()] == [FIT]
    monkeypatch.chdir(tmp_path)
    append_holes(Path("a:b"), "a", [Hole(3, 5)], ERASED)  # no URL of a scheme `a`
    assert read_holes(Path("a:b"), "a") == [Hole(3, 5)]


@pytest.mark.parametrize("name", UNFIT, ids=range(len(UNFIT)))
def test_a_folder_that_delta_rs_cant_open_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    lake = tmp_path / name / "lake"
    with pytest.raises(SettingsError, match=r"no lake can be in .*lake\.dir") as refused:
        append_holes(lake, "a", [Hole(3, 5)], ERASED)
    assert refused.value.code == "invalid_settings"
    assert refused.value.detail.isascii()
    assert refused.value.detail.isprintable()
    settings = Settings(lake=Lake(dir=lake))
    with pytest.raises(SettingsError, match="no lake can be in"):
        run_jobs(settings, "http://127.0.0.1:1", [])
    with pytest.raises(SettingsError, match="no lake can be in"):
        run_job(settings, "http://127.0.0.1:1", "stats", {}, print)
    assert "no lake can be in" in look_at_machine(settings).lake_fault
    assert list(tmp_path.iterdir()) == []
    entry_of(lake / "messages", 0).parent.mkdir(parents=True)
    entry_of(lake / "messages", 0).touch()
    with pytest.raises(LakeUnreadable, match="no lake can be in"):
        DeltaFiles(lake / "messages", "a").version(0)


def test_a_link_to_such_a_folder_is_refused_as_delta_rs_follows_it(tmp_path: Path) -> None:
    (tmp_path / "l[x]").mkdir()
    (tmp_path / "link").symlink_to("l[x]")
    with pytest.raises(SettingsError, match="no lake can be in"):
        check_fit(tmp_path / "link" / "lake")
    (tmp_path / "l[y]").symlink_to(tmp_path)
    append_holes(tmp_path / "l[y]" / "lake", "a", [Hole(3, 5)], ERASED)
    assert read_holes(tmp_path / "lake", "a") == [Hole(3, 5)]


def test_names_are_quoted_as_each_takes_them() -> None:
    path = Path("/a`b/{c,d}*?$")
    assert delta_place(path) == str(path)
    assert sql_place(path) == "delta.`/a``b/{c,d}*?$`"
    assert delta_place(Path("lake")) == str(Path.cwd() / "lake")
