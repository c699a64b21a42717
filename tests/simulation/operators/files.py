"""Files that an operator may import: backups of any age, another group's offsets, damaged or handwritten files."""

from __future__ import annotations

from tests.simulation.operators.world import PARTITIONS

_PLACES = (*PARTITIONS, *PARTITIONS, ("t", 7), ("never", 0))


def file_to_import(rng, world, run):
    """Write a file, or choose a backup. Returns: the words after `offsets import`. run: carries out a command."""
    kept = sorted((one for one in world.folder.iterdir() if one.is_file()), key=lambda one: one.stat().st_mtime_ns)
    kinds = ["by hand", "csv", "another group's", *(["kept", "kept", "damaged"] if kept else [])]
    kind = rng.choice(kinds)
    options = rng.choice([[], [], ["--no-check"], ["--clamp"], ["--topic", "t"], ["--of-earlier-topics"]])
    match kind:
        case "kept":
            return [str(rng.choice(kept)), *options]
        case "damaged":
            text = _damaged(rng, rng.choice(kept).read_text())
        case "another group's":
            form = rng.choice(["json", "zk"])
            text = run(["offsets", "export", "h", "--format", form]).out
            text = text.replace('"h"', '"g"').replace("/consumers/h/", "/consumers/g/")
        case "by hand":
            chosen = rng.sample(_PLACES, rng.randrange(1, 5))
            group = rng.choice("ggh")
            text = "".join(f"/consumers/{group}/offsets/{t}/{p}:{rng.randrange(-2, 300)}\n" for t, p in chosen)
        case _:
            text = "".join(f"{t},{p},{rng.randrange(150)}\n" for t, p in rng.sample(_PLACES, 2))
            options = [*options, "--group", "g"]
    file = world.folder / "by-hand" / f"{rng.randrange(10**9)}.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return [str(file), *options]


def _damaged(rng, text):
    at = rng.randrange(len(text) or 1)
    match rng.randrange(4):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + rng.choice('7x"{}\n,:') + text[at + 1 :]
        case 2:
            return text[:at] + text[at : at + 30] + text[at:]
        case _:
            return text + text
