from spark_source.patterns import NamePatterns


def test_a_name_is_found_by_itself_and_by_a_glob():
    patterns = NamePatterns(("billing", "web-*", "g[12]", "x?"))
    found = [
        n for n in ("billing", "billing2", "Billing", "web-", "web-eu", "g1", "g3", "xy", "x") if patterns.matches(n)
    ]
    assert found == ["billing", "web-", "web-eu", "g1", "xy"]


def test_a_name_with_brackets_is_found_by_itself():
    assert NamePatterns(("a[1]",)).matches("a[1]")


def test_no_entries_match_everything_and_miss_nothing():
    assert NamePatterns().matches("")
    assert NamePatterns().without_match([]) == ()


def test_entries_that_fit_nothing_are_named():
    assert NamePatterns(("a", "b*", "c*", "d")).without_match(["a", "c1"]) == ("b*", "d")
