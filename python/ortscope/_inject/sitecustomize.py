"""Found by every Python that starts below ``ortscope record``: instruments onnxruntime when the program imports it.

Whatever goes wrong here, the program must run as if this file were not there.
"""

import os
import sys


def _next_sitecustomize() -> None:
    """Runs the sitecustomize that this one replaces."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        module = importlib.util.module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


def _instrument() -> None:
    if not os.environ.get("ORTSCOPE_CHANNEL"):
        return
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # Only for the import of our package: its directory may hold packages that the program must not see.
    import importlib.util

    name = "ortscope"
    if importlib.util.find_spec(name) is None:
        place = os.path.join(package, name)
        spec = importlib.util.spec_from_file_location(
            name, os.path.join(place, "__init__.py"), submodule_search_locations=[place]
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    from ortscope import _import_hook

    _import_hook.install()


try:
    _instrument()
except Exception as error:  # noqa: BLE001
    sys.stderr.write("ortscope: this program is not instrumented: %s\n" % error)
try:
    _next_sitecustomize()
except Exception as error:  # noqa: BLE001
    sys.stderr.write("ortscope: another sitecustomize failed: %s\n" % error)
