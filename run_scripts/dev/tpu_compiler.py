"""Compiles a step for TPUs on a machine without any; prints JSON, a line a topology.

    python run_scripts/dev/tpu_compiler.py STEP.mlir v3:2x2 v4:2x2x1 v5e:2x2

Without arguments it prints the required libraries that are missing. `tpu_preflight.py`
runs it in a process of its own: jax and libtpu cannot be loaded together with
TensorFlow, and may be installed in another environment. So this file imports nothing of
the project.
"""

import importlib.util
import json
import os
import re
import sys
import time
from typing import Any

# libtpu asks for the type of its machine and waits for an answer; these give one.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
# No chip is used, so several of these processes may run at the same time.
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

# The compiler's two messages; the second if temporaries alone do not fit.
_OUT_OF_MEMORY = re.compile(
    r"(?:Used |HLO temporaries \()([\d.]+)([MG])(?: of |\) exceeds available HBM \()"
    r"([\d.]+)([MG])"
)
_UNITS = {"M": 2**20, "G": 2**30}


def compile_step(stablehlo: str, topology_name: str) -> dict:
    """Compiles a step and returns the compiler's figures for one core.

    Args:
      stablehlo: the step, from `step_lowering.lower_step`.
      topology_name: generation and shape, as v3:2x2.
    Returns:
      `hbm_bytes`, the memory that the core needs for the step, and its parts; `flops`;
      `bytes_accessed`; `program`, the optimized HLO text. If the step does not fit:
      `hbm_bytes` and `hbm_limit_bytes`.
    """
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.experimental import topologies
    from jaxlib.mlir import ir

    device = topologies.get_topology_desc(topology_name, "tpu").devices[0]
    began = time.monotonic()
    with mlir.make_ir_context():
        # TensorFlow leaves one operation that StableHLO does not have, an identity.
        module = ir.Module.parse(
            re.sub(
                r"mhlo\.copy (%\S+)", r"stablehlo.optimization_barrier \1", stablehlo
            )
        )
        try:
            executable = device.client.compile(
                module, xla_client.DeviceList((device,)), _options_for_one_core()
            )
        except jax.errors.JaxRuntimeError as error:
            message = _OUT_OF_MEMORY.search(str(error))
            if not message:
                raise
            return {
                "device": device.device_kind,
                "hbm_bytes": int(float(message[1]) * _UNITS[message[2]]),
                "hbm_limit_bytes": int(float(message[3]) * _UNITS[message[4]]),
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
        # New weights and moments take the place of the old ones.
        "hbm_bytes": sum(parts.values()) - 2 * parts["alias_bytes"],
        **parts,
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "compile_seconds": time.monotonic() - began,
        "program": "\n".join(m.to_string() for m in executable.hlo_modules()),
    }


def _options_for_one_core() -> Any:
    """Compile options of a program that runs on one core."""
    import numpy as np
    from jax._src.lib import xla_client

    options = xla_client.CompileOptions()
    build = options.executable_build_options
    for holder in (options, build):
        holder.num_replicas = holder.num_partitions = 1
    build.device_assignment = xla_client.DeviceAssignment.create(
        np.zeros((1, 1), np.int32)
    )
    return options


def main() -> None:
    """Prints a line of JSON for each topology."""
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
        except Exception as error:  # any error of the compiler is a result
            figures = {"error": str(error)}
        print(json.dumps({"topology": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
