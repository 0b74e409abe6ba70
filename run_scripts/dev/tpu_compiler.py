"""Compiles a step for TPUs on a machine without any; prints a JSON line a topology.

    python run_scripts/tpu_compiler.py STEP.mlir v3:2x2 v4:2x2x1 v5e:2x2

Without arguments it prints which of the libraries that it needs are missing.
`tpu_preflight.py` runs this in a process of its own: it needs jax and libtpu, whose
libraries must not meet TensorFlow's in one process, and may live in another
environment. The text of the step is all that passes between the two.
"""

import importlib.util
import json
import os
import re
import sys
import time

# libtpu looks for the machine it is on; these answer what it would wait for.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
# No chip is used, so several of these processes do not disturb each other.
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

# Found at the end, or sooner where temporaries alone are too many.
_OUT_OF_MEMORY = re.compile(
    r"(?:Used |HLO temporaries \()([\d.]+)([MG])(?: of |\) exceeds available HBM \()"
    r"([\d.]+)([MG])"
)
_UNITS = {"M": 2**20, "G": 2**30}


def compile_step(stablehlo: str, topology_name: str) -> dict:
    """The compiler's figures for one core, all in bytes and operations.

    Args:
      stablehlo: the step, as `train_step.lower_step` gives it.
      topology_name: generation and shape, as v3:2x2.
    Returns:
      `hbm_bytes`, what the core must hold while the step runs, and its parts; `flops`;
      `bytes_accessed`. Where it does not fit: `hbm_bytes` and `hbm_limit_bytes` alone.
    """
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.experimental import topologies
    from jaxlib.mlir import ir

    device = topologies.get_topology_desc(topology_name, "tpu").devices[0]
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    for holder in (options, build):
        holder.num_replicas = holder.num_partitions = 1
    build.device_assignment = xla_client.DeviceAssignment.create(
        np.zeros((1, 1), np.int32)
    )
    began = time.monotonic()
    with mlir.make_ir_context():
        # TensorFlow leaves one operation that StableHLO has no name for: an identity.
        module = ir.Module.parse(
            re.sub(
                r"mhlo\.copy (%\S+)", r"stablehlo.optimization_barrier \1", stablehlo
            )
        )
        try:
            executable = device.client.compile(
                module, xla_client.DeviceList((device,)), options
            )
        except jax.errors.JaxRuntimeError as error:
            found = _OUT_OF_MEMORY.search(str(error))
            if not found:
                raise
            return {
                "device": device.device_kind,
                "hbm_bytes": int(float(found[1]) * _UNITS[found[2]]),
                "hbm_limit_bytes": int(float(found[3]) * _UNITS[found[4]]),
            }
    memory = executable.get_compiled_memory_stats()
    cost = executable.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    parts = {
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "code_bytes": memory.generated_code_size_in_bytes,
    }
    return {
        "device": device.device_kind,
        # New weights and moments take the places of the old ones.
        "hbm_bytes": sum(parts.values()) - 2 * parts["alias_bytes"],
        **parts,
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "compile_seconds": time.monotonic() - began,
    }


def main():
    if len(sys.argv) == 1:
        names = ("jax", "libtpu")
        print(json.dumps([n for n in names if not importlib.util.find_spec(n)]))
        return
    file, *topology_names = sys.argv[1:]
    with open(file, encoding="utf-8") as opened:
        stablehlo = opened.read()
    for name in topology_names:
        try:
            figures = compile_step(stablehlo, name)
        except Exception as error:  # whatever the compiler raises is the answer
            figures = {"error": str(error)}
        print(json.dumps({"topology": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
