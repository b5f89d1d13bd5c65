"""Takes files out of a package archive (wheel, zip, or tar of any compression), without installing it.

    extract.py ARCHIVE --file MEMBER OUTPUT SHA256     one file, by the end of its path, with a checksum
    extract.py ARCHIVE --libraries FOLDER OUTPUT       the shared libraries of one folder, into a directory

Only names that are asked for are written, to a temporary name first, so a broken download leaves nothing behind.
"""

import argparse
import hashlib
import os
import pathlib
import re
import sys
import tarfile
import zipfile

LIBRARY = re.compile(r"\.(dll|dylib|so(\.\d+)*)$|\.\d+\.dylib$")


class Archive:
    """The regular files of a zip or tar archive, whichever it is."""

    def __init__(self, path):
        if zipfile.is_zipfile(path):
            archive = zipfile.ZipFile(path)
            self.names = [name for name in archive.namelist() if not name.endswith("/")]
            self.read = archive.read
        else:
            archive = tarfile.open(path)
            self.names = [member.name for member in archive.getmembers() if member.isfile()]
            self.read = lambda name: archive.extractfile(name).read()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def extract_file(archive, member, output, expected):
    found = [name for name in archive.names if name == member or name.endswith("/" + member)]
    if len(found) != 1:
        sys.exit(f"error: {len(found)} files end in {member}: {', '.join(found) or 'none'}")
    data = archive.read(found[0])
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        sys.exit(f"error: {member} has the checksum {digest}, not {expected}")
    write(pathlib.Path(output), data)


def extract_libraries(archive, folder, output):
    found = [
        name for name in archive.names
        if f"/{folder}/" in f"/{name}" and LIBRARY.search(name) and "pybind" not in name
    ]
    if not found:
        sys.exit(f"error: the archive has no library in {folder}")
    for name in found:
        write(pathlib.Path(output) / pathlib.PurePosixPath(name).name, archive.read(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("--file", nargs=3, metavar=("MEMBER", "OUTPUT", "SHA256"))
    parser.add_argument("--libraries", nargs=2, metavar=("FOLDER", "OUTPUT"))
    options = parser.parse_args()
    archive = Archive(options.archive)
    if options.file:
        extract_file(archive, *options.file)
    elif options.libraries:
        extract_libraries(archive, *options.libraries)
    else:
        parser.error("one of --file and --libraries is needed")


if __name__ == "__main__":
    main()
