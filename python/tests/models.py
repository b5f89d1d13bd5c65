"""Small ONNX models written as bytes, so that the tests need no package besides onnxruntime and numpy."""

FLOAT, INT64 = 1, 7


def _varint(number):
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _value(name, kind, dims):
    shape = b"".join(
        _bytes(1, _bytes(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in dims
    )
    tensor = _number(1, kind) + _bytes(2, shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


def _node(operator, inputs, outputs, name):
    body = b"".join(_bytes(1, given) for given in inputs) + b"".join(_bytes(2, made) for made in outputs)
    return body + _bytes(3, name) + _bytes(4, operator)


def _model(graph):
    # IR 7 and opset 13 are known to every version from 1.15 on.
    return _number(1, 7) + _bytes(2, "ortscope-tests") + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))


def identity(dims=("batch", 4)):
    graph = _bytes(1, _node("Identity", ["x"], ["y"], "identity"))
    graph += _bytes(2, "identity_graph") + _bytes(11, _value("x", FLOAT, dims)) + _bytes(12, _value("y", FLOAT, dims))
    return _model(graph)


def chain(length=5):
    """Sin after Sin: `length` operators."""
    names = ["x"] + ["t%d" % index for index in range(1, length)] + ["y"]
    graph = b"".join(
        _bytes(1, _node("Sin", [names[index]], [names[index + 1]], "sin_%d" % index)) for index in range(length)
    )
    dims = ("batch", 4)
    graph += _bytes(2, "chain") + _bytes(11, _value("x", FLOAT, dims)) + _bytes(12, _value("y", FLOAT, dims))
    return _model(graph)


def reshape():
    """Fails in `run` when the wanted shape does not fit."""
    graph = _bytes(1, _node("Reshape", ["x", "shape"], ["y"], "reshape")) + _bytes(2, "reshape_graph")
    graph += _bytes(11, _value("x", FLOAT, ("n",))) + _bytes(11, _value("shape", INT64, ("k",)))
    graph += _bytes(12, _value("y", FLOAT, ("a", "b")))
    return _model(graph)


def add_weights(weights):
    """y = x + w, with these bytes as the four weights."""
    initializer = _number(1, 1) + _number(1, 4) + _number(2, FLOAT) + _bytes(8, "w") + _bytes(9, weights)
    graph = _bytes(1, _node("Add", ["x", "w"], ["y"], "add")) + _bytes(2, "add_weights") + _bytes(5, initializer)
    graph += _bytes(11, _value("x", FLOAT, (1, 4))) + _bytes(12, _value("y", FLOAT, (1, 4)))
    return _model(graph)
