"""Reads the weights of Rampart's 4-bit graph, and writes others into it as int8, to seven bits.

Products of eight may overflow on processors without VNNI. Needs onnx and onnxruntime.
"""

import gzip
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

TYPES = "bert.embeddings.token_type_embeddings.weight"


def weights_of(packed: bytes) -> dict[str, np.ndarray]:
    """The weights of a graph as float32, by their names in transformers."""
    graph = with_plain_weights(onnx.load_from_string(packed)).graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    weights = {name: stored[plain].T for plain, name in _products(graph)}
    for name, values in stored.items():
        if name.endswith(".weight_quantized"):
            name = name.removesuffix("_quantized")
            zero = stored[f"{name}_zero_point"].astype(np.float32)
            weights[name] = (values.astype(np.float32) - zero) * stored[f"{name}_scale"]
        elif name.endswith((".weight", ".bias")) and values.dtype == np.float32:
            weights[name] = values
    return weights


def write(packed: bytes, weights: dict[str, np.ndarray], layers: int, path: Path) -> None:
    """Writes a graph of the first layers with these weights."""
    model = with_plain_weights(onnx.load_from_string(packed))
    graph = model.graph
    stored = {each.name: each for each in graph.initializer}
    new = {plain: weights[name].T for plain, name in _products(graph) if name in weights}
    new |= {name: weights[name] for name in stored if name in weights}
    table = weights[TYPES]
    low, high = min(table.min(), 0), max(table.max(), 0)
    scale = np.float32((high - low) / 255)
    zero = np.uint8(round(-low / scale))
    new[f"{TYPES}_quantized"] = np.clip(np.round(table / scale) + zero, 0, 255).astype(np.uint8)
    new |= {f"{TYPES}_scale": scale, f"{TYPES}_zero_point": zero}
    for name, values in new.items():
        whole = np.ascontiguousarray(values).reshape(np.shape(values))
        stored[name].CopyFrom(numpy_helper.from_array(whole, name))
    _cut(graph, layers)
    for output in graph.output:
        output.type.tensor_type.shape.dim[-1].dim_value = len(weights["classifier.bias"])
    options = FusionOptions("bert")
    options.enable_skip_layer_norm = False  # slower than its parts, by a third of the whole
    with tempfile.TemporaryDirectory() as folder:
        plain, fused, small = (Path(folder, f"{n}.onnx") for n in ("plain", "fused", "small"))
        onnx.save(model, plain)
        bert = {"num_heads": 12, "hidden_size": 384, "optimization_options": options}
        made = optimizer.optimize_model(str(plain), model_type="bert", opt_level=0, **bert)
        made.save_model_to_file(str(fused))
        kind = QuantType.QInt8
        quantize_dynamic(fused, small, per_channel=True, reduce_range=True, weight_type=kind)
        path.write_bytes(gzip.compress(small.read_bytes(), mtime=0))


def _products(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Names of factors of products in the graph, and in transformers, by the bias behind each."""
    stored, users = {each.name for each in graph.initializer}, _users(graph)
    for plain in [name for name in stored if name.endswith("_plain")]:
        [product] = users[plain]
        [added] = users[product.output[0]]
        [bias] = [name for name in added.input if name in stored]
        yield plain, bias.removesuffix("bias") + "weight"


def _users(graph: onnx.GraphProto) -> dict[str, list[onnx.NodeProto]]:
    users = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    return users


def _cut(graph: onnx.GraphProto, layers: int) -> None:
    """Lets the classifier read the last layer that is kept; the optimizer drops the others."""
    users = _users(graph)

    def output(layer: int) -> str:
        [node] = users[f"bert.encoder.layer.{layer}.output.LayerNorm.bias"]
        return node.output[0]

    last = max(k for k in range(99) if users[f"bert.encoder.layer.{k}.output.LayerNorm.bias"])
    if layers <= last:
        for node in users[output(last)]:
            node.input[:] = [output(layers - 1) if n == output(last) else n for n in node.input]


def with_plain_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with products of float32 in place of those of 4-bit blocks."""
    graph = model.graph
    stored = {each.name: each for each in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "MatMulNBits"]:
        sizes = {each.name: each.i for each in node.attribute}
        packed, scales = (numpy_helper.to_array(stored[name]) for name in node.input[1:3])
        digits = np.stack([packed & 15, packed >> 4], -1).astype(np.float32)
        blocks = digits.reshape(sizes["N"], -1, sizes["block_size"]) - 8
        weights = (blocks * scales.reshape(sizes["N"], -1, 1)).reshape(sizes["N"], -1)
        name = f"{node.input[1]}_plain"
        plain = np.ascontiguousarray(weights[:, : sizes["K"]].T)
        graph.initializer.append(numpy_helper.from_array(plain, name))
        node.CopyFrom(helper.make_node("MatMul", [node.input[0], name], list(node.output)))
    return model
