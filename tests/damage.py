"""Random damage to files: bits that flip, ends that are missing, and ends that do not belong there."""


def damage(folder, random):
    """Damages one file in a folder, or the file itself, and returns what was done as a string."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]
    file = files[random.integers(len(files))]
    content = bytearray(file.read_bytes())
    kind = ["flip", "cut", "append"][random.integers(3)]
    if kind == "flip":
        # Names and sizes are at the beginning of most formats.
        places = random.integers(0, min(len(content), 2 ** random.integers(5, 30)), random.integers(1, 4))
        for place in places:
            content[place] ^= 1 << random.integers(8)
    elif kind == "cut":
        places = [int(random.integers(0, len(content)))]
        del content[places[0] :]
    else:
        places = [len(content)]
        content += random.bytes(random.integers(1, 100))
    file.write_bytes(content)
    return f"{kind} of {file.name} at {[int(place) for place in places]}"


def files_of(folder):
    """Returns the paths of all files in a folder."""
    return sorted(str(path) for path in folder.rglob("*"))
