"""Which files are merged: few at all times, each row only a few times, large ones never, old ones with old ones."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, log

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.merging import TOGETHER_MAX, Limits, Merge, TableFile, merge_all, next_merge, unfinished

MANY = st.integers(1, 400)


class Table:
    """A table as the rule makes it; each file's rows are of some commits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.files: dict[str, TableFile] = {}
        self.held: dict[str, list[int]] = {}
        self.rewritten: dict[int, int] = {}
        self.commits = 0

    def append(self, size: int) -> None:
        name = f"c{self.commits:06}"
        self.files[name] = TableFile(name, size, 0, f"{self.commits:06}")
        self.held[name] = [self.commits]
        self.rewritten[self.commits] = 0
        self.commits += 1

    def carry_out(self, merge: Merge) -> None:
        assert len(merge.files) >= 2
        assert len(merge.files) <= TOGETHER_MAX
        assert all(file.bytes < self.limits.done_bytes for file in merge.files)
        size = sum(file.bytes for file in merge.files)
        assert size <= self.limits.bytes_max
        held = [self.held.pop(file.path) for file in merge.files]
        assert all(before[-1] < after[0] for before, after in pairwise(held))
        commits = [commit for each in held for commit in each]
        for file in merge.files:
            del self.files[file.path]
        for commit in commits:
            self.rewritten[commit] += 1
        name = f"m{commits[0]:06}-{commits[-1]:06}-{merge.tier}"
        self.files[name] = TableFile(name, size, merge.tier, f"{commits[0]:06}")
        self.held[name] = commits

    def tiers(self) -> int:
        """So many there may be, of those that aren't done."""
        return ceil(log(max(self.commits, 2)) / log(self.limits.files) + 1e-9)


@given(st.integers(2, 16), st.lists(st.tuples(st.integers(1, 120), st.integers(0, 3)), max_size=300))
def test_files_stay_few_and_each_row_is_written_again_at_most_once_a_tier(
    count: int, appends: list[tuple[int, int]]
) -> None:
    table = Table(Limits(count, 200))
    for size, merges in appends:
        table.append(size)
        for _ in range(merges):  # it is away for a while, and comes back
            if (merge := next_merge(table.files.values(), table.limits)) is not None:
                table.carry_out(merge)
    while (merge := next_merge(table.files.values(), table.limits)) is not None:
        table.carry_out(merge)
    assert unfinished(table.files.values(), table.limits) <= (count - 1) * table.tiers()
    assert max(table.rewritten.values(), default=0) <= table.tiers()
    done = [file for file in table.files.values() if file.bytes >= table.limits.done_bytes]
    assert len(done) <= sum(size for size, _ in appends) / table.limits.done_bytes
    assert sorted(commit for each in table.held.values() for commit in each) == list(range(table.commits))
    for tier in {file.tier for file in table.files.values()}:  # what is merged is of one time
        held = sorted(table.held[file.path] for file in table.files.values() if file.tier == tier)
        assert all(before[-1] < after[0] for before, after in pairwise(held))


@given(st.lists(st.integers(1, 150), max_size=150), MANY)
def test_merging_all_ends_with_as_few_files_as_their_bytes_allow(sizes: list[int], bytes_max: int) -> None:
    table = Table(Limits(12, bytes_max))
    for size in sizes:
        table.append(size)
    rounds = 0
    while merges := merge_all(table.files.values(), table.limits):
        assert len({file.path for merge in merges for file in merge.files}) == sum(len(each.files) for each in merges)
        for merge in merges:
            table.carry_out(merge)
        rounds += 1
    assert rounds <= 10
    assert unfinished(table.files.values(), table.limits) <= 1
    assert not merge_all(table.files.values(), table.limits)


def test_the_lowest_tier_comes_first_and_its_oldest_files() -> None:
    limits = Limits(2, 100)
    files = [TableFile(name, 1, tier, name) for name, tier in (("d", 1), ("c", 0), ("a", 1), ("b", 0), ("e", 0))]
    merge = next_merge(files, limits)
    assert merge is not None
    assert ([file.path for file in merge.files], merge.tier) == (["b", "c", "e"], 1)
    merge = next_merge(files[:1] + files[2:4], limits)
    assert merge is not None
    assert ([file.path for file in merge.files], merge.tier) == (["a", "d"], 2)
    assert next_merge(files[:2], limits) is None


def test_a_day_at_five_seconds_is_a_handful_of_files() -> None:
    """17,280 commits of a table: never more than 60 files wait, with a merge between two commits."""
    table = Table(Limits(12, 2**30))
    most = 0
    for _ in range(17_280):
        table.append(650_000)
        most = max(most, len(table.files))
        while (merge := next_merge(table.files.values(), table.limits)) is not None:
            table.carry_out(merge)
    assert most <= 60
    assert max(table.rewritten.values()) <= 4


def test_what_is_merged_is_in_its_order_whatever_its_path_and_of_a_tier_above_all_of_it() -> None:
    limits = Limits(2, 100)
    files = [TableFile("b", 20, 0, "1"), TableFile("a", 20, 2, "2"), TableFile("c", 20, 1, "0")]
    assert [([file.path for file in each.files], each.tier) for each in merge_all(files, limits)] == [
        (["c", "b", "a"], 3)
    ]
    of_a_tier = [file._replace(tier=0) for file in files]
    merge = next_merge(of_a_tier, limits)
    assert merge is not None
    assert ([file.path for file in merge.files], merge.tier) == (["c", "b", "a"], 1)


def test_one_file_may_have_all_the_bytes_that_there_are() -> None:
    files = [TableFile(name, 25, 0, name) for name in "abcde"]
    merges = merge_all(files, Limits(2, 100))
    assert [[file.path for file in each.files] for each in merges] == [["a", "b", "c", "d"]]
    assert [len(each.files) for each in merge_all(files, Limits(2, 99))] == [3, 2]
