"""The checks of ONNX Runtime's own Python tests, run with both classes: the results must be the same.

The list follows the public methods and documented errors of `onnxruntime.InferenceSession`; each behavior is a function
from a class to a value that can be compared, or to the exception that it raised.
"""

import copy
import inspect
import pathlib
import threading
import weakref

import models
import numpy
import onnxruntime
import ortscope
import pytest

CPU = ["CPUExecutionProvider"]
BEHAVIOURS = {}


def behavior(function):
    BEHAVIOURS[function.__name__] = function
    return function


class Given:
    def __init__(self, kind, directory):
        self.kind = kind
        self.path = str(directory / "identity.onnx")
        self.x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)

    def session(self, *args, **kwargs):
        kwargs.setdefault("providers", CPU)
        return self.kind(*(args or (self.path,)), **kwargs)


def outcome(function, given):
    try:
        return ("value", function(given))
    except Exception as error:  # noqa: BLE001 - the exception is the answer
        return ("raised", type(error).__name__, str(error))


@behavior
def run_gives_all_outputs(given):
    return [value.tolist() for value in given.session().run(None, {"x": given.x})]


@behavior
def run_gives_named_outputs(given):
    return [value.tolist() for value in given.session().run(["y"], {"x": given.x})]


@behavior
def run_with_an_empty_list_of_names(given):
    return [value.tolist() for value in given.session().run([], {"x": given.x})]


@behavior
def run_with_an_unknown_output(given):
    return given.session().run(["nothing"], {"x": given.x})


@behavior
def run_without_an_input(given):
    return given.session().run(None, {})


@behavior
def run_with_an_unknown_input(given):
    return given.session().run(None, {"x": given.x, "more": given.x})


@behavior
def run_with_a_wrong_type(given):
    return given.session().run(None, {"x": given.x.astype(numpy.float64)})


@behavior
def run_with_a_wrong_rank(given):
    return given.session().run(None, {"x": given.x.reshape(-1)})


@behavior
def run_with_a_wrong_dimension(given):
    return given.session().run(None, {"x": numpy.ones((2, 5), dtype=numpy.float32)})


@behavior
def run_with_a_list_instead_of_an_array(given):
    return [numpy.asarray(value).tolist() for value in given.session().run(None, {"x": given.x.tolist()})]


@behavior
def run_with_something_that_is_no_dictionary(given):
    return given.session().run(None, [given.x])


@behavior
def run_with_too_few_arguments(given):
    try:
        given.session().run()
    except TypeError as error:
        return "TypeError" if "run" in str(error) else str(error)


@behavior
def run_with_an_unknown_keyword(given):
    try:
        given.session().run(None, {"x": given.x}, frobnicate=1)
    except TypeError as error:
        return "TypeError" if "frobnicate" in str(error) else str(error)


@behavior
def run_that_is_terminated(given):
    options = onnxruntime.RunOptions()
    options.terminate = True
    return given.session().run(None, {"x": given.x}, options)


@behavior
def run_on_a_view_that_is_not_contiguous(given):
    return given.session().run(None, {"x": numpy.ones((4, 2), dtype=numpy.float32).T})[0].tolist()


@behavior
def run_on_nothing(given):
    return given.session().run(None, {"x": numpy.ones((0, 4), dtype=numpy.float32)})[0].shape


@behavior
def run_in_threads(given):
    session, found = given.session(), []
    threads = [
        threading.Thread(target=lambda: [found.append(session.run(None, {"x": given.x})[0].sum()) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [float(value) for value in found]


@behavior
def model_from_bytes(given):
    with open(given.path, "rb") as file:
        return given.session(file.read()).run(None, {"x": given.x})[0].tolist()


@behavior
def model_from_a_path_object(given):
    return given.session(pathlib.Path(given.path)).run(None, {"x": given.x})[0].tolist()


@behavior
def model_that_is_not_there(given):
    return given.session("there-is-no-such-file.onnx")


@behavior
def model_of_a_wrong_type(given):
    return given.session(17)


@behavior
def model_that_is_damaged(given):
    return given.session(b"this is no model")


@behavior
def options_that_are_none(given):
    try:
        given.kind(given.path, "no options", providers=CPU)
    except Exception as error:  # noqa: BLE001 - the text names addresses
        return type(error).__name__


@behavior
def providers_with_options(given):
    return given.session(providers=[("CPUExecutionProvider", {})]).get_providers()


@behavior
def providers_and_options_apart(given):
    return given.session(providers=CPU, provider_options=[{}]).get_providers()


@behavior
def providers_and_options_that_do_not_fit(given):
    return given.session(providers=CPU, provider_options=[{}, {}]).get_providers()


@behavior
def inputs_and_outputs(given):
    session = given.session()
    return [(value.name, value.type, value.shape) for value in session.get_inputs() + session.get_outputs()]


@behavior
def initializers(given):
    return len(given.session().get_overridable_initializers())


@behavior
def metadata(given):
    meta = given.session().get_modelmeta()
    return (meta.graph_name, meta.producer_name, meta.version, meta.custom_metadata_map)


@behavior
def provider_options(given):
    return sorted(given.session().get_provider_options())


@behavior
def session_options(given):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made = given.session(given.path, options).get_session_options()
    return (made.intra_op_num_threads, made.get_session_config_entry("session.intra_op.allow_spinning"))


@behavior
def providers_set_again(given):
    session = given.session()
    session.set_providers(CPU)
    return session.run(None, {"x": given.x})[0].tolist()


@behavior
def fallback_switched(given):
    session = given.session()
    session.disable_fallback()
    session.enable_fallback()
    return session._enable_fallback


@behavior
def profiling_of_the_whole_session(given):
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = given.path + "-profile"
    session = given.session(given.path, options)
    session.run(None, {"x": given.x})
    started = session.get_profiling_start_time_ns() > 0
    with open(session.end_profiling(), encoding="utf-8") as file:
        return (started, "model_run" in file.read())


@behavior
def io_binding(given):
    session = given.session()
    binding = session.io_binding()
    binding.bind_cpu_input("x", given.x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0].tolist()


@behavior
def io_binding_of_a_wrong_name(given):
    session = given.session()
    binding = session.io_binding()
    binding.bind_cpu_input("nothing", given.x)


@behavior
def ort_values(given):
    value = onnxruntime.OrtValue.ortvalue_from_numpy(given.x)
    return given.session().run_with_ort_values(["y"], {"x": value})[0].numpy().tolist()


@behavior
def asynchronous_run(given):
    if not hasattr(onnxruntime.InferenceSession, "run_async"):
        return "this version has none"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    done, found = threading.Event(), []

    def finished(values, data, error):
        found.append((values[0].tolist(), data, error))
        done.set()

    # Kept until it is done: some versions wait for ever when a session ends with a run in flight.
    session = given.session(given.path, options)
    session.run_async(["y"], {"x": given.x}, finished, "mine")
    assert done.wait(20)
    return found


@behavior
def attributes_of_ones_own(given):
    session = given.session()
    session.mine = 1
    return (session.mine, hasattr(session, "frobnicate"))


@behavior
def weak_references(given):
    return weakref.ref(given.session())() is None


@behavior
def shallow_copies(given):
    return copy.copy(given.session()).run(None, {"x": given.x})[0].tolist()


@behavior
def public_names(given):
    return sorted(name for name in dir(given.session()) if not name.startswith("_"))


@behavior
def signatures(given):
    names = [name for name in dir(given.kind) if not name.startswith("_")]
    return {
        name: list(inspect.signature(getattr(given.kind, name)).parameters)
        for name in names
        if inspect.isroutine(getattr(given.kind, name))
    }


@pytest.mark.parametrize("name", sorted(BEHAVIOURS))
def test_the_answers_are_the_same(name, tmp_path):
    (tmp_path / "identity.onnx").write_bytes(models.identity())
    wanted = outcome(BEHAVIOURS[name], Given(onnxruntime.InferenceSession, tmp_path))
    with ortscope.Monitor(record=False):
        assert outcome(BEHAVIOURS[name], Given(ortscope.MonitoredInferenceSession, tmp_path)) == wanted
        ortscope.patch()
        assert outcome(BEHAVIOURS[name], Given(onnxruntime.InferenceSession, tmp_path)) == wanted
