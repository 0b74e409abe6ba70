"""The largest tensors and the traffic of a program that the TPU compiler has made.

The input is the compiler's optimized HLO text. Its operations stand in the order in
which they run, and each tensor has its layout, so that sizes are those in memory, with
padding. A tensor lives from the operation that writes it to the last one that reads it.
An operation moves its operands and results; what a fusion reads only in part counts as
whole, and the parts of a loop count once.
"""

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_BITS = {"pred": 8, "bf16": 16}  # others end with their bits, as f32 and s8
_TENSOR = re.compile(
    r"\b(?P<dtype>pred|bf16|[fsu]\d+)\[(?P<sizes>[\d,]*)\]"
    r"(?:\{(?P<order>[\d,]*)(?::(?P<memory>[^}]*))?\})?"
)
_TILE = re.compile(r"T\(([\d,]+)\)")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%(\S+) \(.*\{$")
_OPERATION = re.compile(r"^\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*)$")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_NAME = re.compile(r"%([\w.-]+)")
_INDEX = re.compile(r"\bindex=(\d+)")
_CALLED = re.compile(r"\b(?:calls|body)=%([\w.-]+)")

# They name tensors that others have written.
_NAMES = frozenset({"bitcast", "get-tuple-element", "tuple", "parameter", "constant"})
# The first that occurs in a fusion says its kind.
_KINDS = {
    "matrix products": {"convolution", "dot"},
    "gather and scatter": {"gather", "scatter", "sort", "dynamic-slice"},
    "sums": {"reduce", "reduce-window"},
    "copies": {"copy", "transpose", "reshape", "copy-start", "slice", "concatenate"},
}
# Parts of an operation's name that are the same for all operations.
_COMMON = re.compile(
    r"(?:StatefulP|P)artitionedCall|gradients|gradient_tape|[a-z_]+_model|IdentityN"
    r"|albert_encoder|transformer_block"
)
_NUMBER = re.compile(r"_\d+$")
# Layers that share no weights have these, numbered.
_NUMBERED = re.compile(r"(self_attention|feed_forward|dropout|layer_norm)_\d+")


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of the program.

    Attributes:
      name: unique name.
      opcode: as `fusion`.
      tensors: its results, as (dtype and sizes, bytes in the main memory).
      operands: names of the operations that it reads.
      label: the operation of the model that it is part of.
      kind: one of `_KINDS`, or "element-wise".
      index: which result of its operand a `get-tuple-element` names.
      read: bytes that it reads of an operand of which it takes only slices; by the
        operand's number.
    """

    name: str
    opcode: str
    tensors: tuple[tuple[str, int], ...]
    operands: tuple[str, ...]
    label: str
    kind: str
    index: int | None
    read: dict[int, int]

    @property
    def bytes(self) -> int:
        """Bytes of all results."""
        return sum(size for _, size in self.tensors)


def summarize(text: str, most: int = 10) -> dict[str, Any]:
    """Finds what fills the memory and what moves bytes.

    Args:
      text: an executable's optimized, scheduled HLO.
      most: number of rows of each table.
    Returns:
      `largest_temporaries`: tensors that live when temporaries need the most memory,
      equal ones together, with `bytes` of all, `count`, `tensor` and `operation`.
      `largest_traffic`: operations with `bytes`, `count`, `kind` and `operation`.
      `traffic_bytes`: bytes of each kind.
    """
    operations = parse(text)
    live = Counter(_live_at_peak(operations))
    temporaries = [
        {
            "bytes": size * count,
            "count": count,
            "tensor": tensor,
            "operation": label,
        }
        for (tensor, size, label), count in live.items()
    ]
    moved: dict[tuple[str, str], list[int]] = defaultdict(list)
    sizes = _sizes(operations)
    for operation in operations:
        if operation.opcode not in _NAMES and operation.opcode != "while":
            read = {
                name: min(operation.read.get(number, math.inf), sizes.get(name, 0))
                for number, name in enumerate(operation.operands)
            }
            total = operation.bytes + sum(read.values())
            moved[operation.kind, operation.label].append(total)
    kinds: Counter[str] = Counter()
    for (kind, _), amounts in moved.items():
        kinds[kind] += sum(amounts)
    traffic = [
        {"bytes": sum(amounts), "count": len(amounts), "kind": kind, "operation": label}
        for (kind, label), amounts in moved.items()
    ]
    return {
        "largest_temporaries": _largest(temporaries, most),
        "largest_traffic": _largest(traffic, most),
        "traffic_bytes": dict(kinds.most_common()),
    }


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Rows of `summarize` as text: gigabytes, count and two columns."""
    first, second = columns
    width = max(len(str(value)) for value in [first, *[row[first] for row in rows]])
    lines = [f"{'GB':>8} {'count':>6}  {first:<{width}}  {second}"]
    lines += [
        f"{row['bytes'] / 1e9:8.3f} {row['count']:6}  {row[first]:<{width}}  "
        f"{row[second]}"
        for row in rows
    ]
    return "\n".join(lines)


def parse(text: str) -> list[Operation]:
    """Operations of the program and of its loops, in the order in which they run.

    Raises:
      ValueError: the text has no entry computation.
    """
    computations: dict[str, list[str]] = {}
    current: list[str] = []
    entry = None
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations[header[1]] = []
            entry = header[1] if line.startswith("ENTRY") else entry
        else:
            current.append(line)
    if entry is None:
        raise ValueError("The compiler's program has no entry computation.")
    kinds = {name: _kind(lines) for name, lines in computations.items()}
    reads: dict[str, dict[int, int]] = {}
    for name, lines in computations.items():  # those that are called come first
        reads[name] = _slices(lines, reads)

    def walk(name: str) -> list[Operation]:
        operations = []
        for line in computations[name]:
            if match := _OPERATION.match(re.sub(r"/\*.*?\*/", "", line)):
                operation = _operation(match, kinds, reads)
                called = _CALLED.search(match[4])
                if operation.opcode == "while" and called:
                    operations += walk(called[1])
                operations.append(operation)
        return operations

    return walk(entry)


def _kind(lines: Iterable[str]) -> str:
    opcodes = {match[3] for line in lines if (match := _OPERATION.match(line))}
    for kind, members in _KINDS.items():
        if opcodes & members:
            return kind
    return "element-wise"


def _slices(
    lines: Iterable[str], reads: Mapping[str, dict[int, int]]
) -> dict[int, int]:
    """Bytes of the slices of each parameter that is read by slices alone.

    Args:
      lines: a computation.
      reads: the result for the computations that it calls.
    """
    parameters: dict[str, int] = {}
    slices: Counter[int] = Counter()
    whole = set()
    for line in lines:
        if not (match := _OPERATION.match(line)):
            continue
        name, result, opcode, rest = match.groups()
        if opcode == "parameter":
            parameters[name] = int(rest[: rest.find(")")])
        called = _CALLED.search(rest)
        for place, operand in enumerate(_operands(rest)):
            number = parameters.get(operand)
            if number is None:
                continue
            if opcode == "bitcast":
                parameters[name] = number
            elif opcode in ("slice", "dynamic-slice", "gather"):
                slices[number] += sum(
                    _tensor(tensor)[1] for tensor in _TENSOR.finditer(result)
                )
            elif called and place in reads[called[1]]:
                slices[number] += reads[called[1]][place]
            else:
                whole.add(number)
    return {number: size for number, size in slices.items() if number not in whole}


def _operands(rest: str) -> list[str]:
    """Names of the operands in what follows an opcode and its parenthesis."""
    return _NAME.findall(rest[: rest.find(")")])


def _operation(
    match: re.Match[str], kinds: dict[str, str], reads: dict[str, dict[int, int]]
) -> Operation:
    name, result, opcode, rest = match.groups()
    called = _CALLED.search(rest)
    label, index = _OP_NAME.search(rest), _INDEX.search(rest)
    return Operation(
        name,
        opcode,
        tuple(_tensor(match) for match in _TENSOR.finditer(result)),
        tuple(_operands(rest)),
        _label(label[1] if label else ""),
        kinds[called[1]] if called and opcode == "fusion" else _kind([match[0]]),
        int(index[1]) if index else None,
        reads[called[1]] if called and opcode == "fusion" else {},
    )


def _tensor(match: re.Match[str]) -> tuple[str, int]:
    """dtype and sizes, and bytes in the main memory, with the padding of its tiles."""
    dtype, memory = match["dtype"], match["memory"] or ""
    sizes = [int(size) for size in match["sizes"].split(",") if size]
    name = f"{dtype}[{','.join(map(str, sizes))}]"
    if "S(" in memory:  # inside the core
        return name, 0
    order = [int(axis) for axis in (match["order"] or "").split(",") if axis]
    if tile := _TILE.search(memory):
        lengths = [int(length) for length in tile[1].split(",")]
        for axis, length in zip(order, reversed(lengths), strict=False):
            sizes[axis] = -(-sizes[axis] // length) * length
    bits = _BITS.get(dtype) or int(dtype[1:])
    return name, math.prod(sizes) * bits // 8


def _label(op_name: str) -> str:
    """The operation of the model: `op_name` without what all operations share."""
    parts = op_name.split(";")[-1].split("/")
    backward = any(part.startswith("gradient") or "_grad" in part for part in parts)
    kept = []
    for part in parts:
        if part.endswith("_grad") and kept and not part.startswith("IdentityN"):
            kept += [part.removesuffix("_grad")] if part[0].isupper() else []
            break
        if not _COMMON.fullmatch(_NUMBER.sub("", part.replace("_grad", ""))):
            numbered = _NUMBERED.fullmatch(part)
            kept.append(numbered[1] if numbered else part)
    if len(kept) > 1 and _NUMBER.sub("", kept[-1]) in ("Einsum", "MatMul"):
        kept.pop()  # inside the function that the model calls
    if kept and kept[0] in ("lamb", "adamw"):
        kept = [_NUMBER.sub("", part) for part in kept]
    return ("gradient of " if backward else "") + ("/".join(kept) or "-")


def _sizes(operations: Sequence[Operation]) -> dict[str, int]:
    return {operation.name: operation.bytes for operation in operations}


def _live_at_peak(operations: Sequence[Operation]) -> list[tuple[str, int, str]]:
    """(tensor, bytes, label) of all temporaries at the moment when they are most.

    Weights, moments and the results of the step are no temporaries.
    """
    # Each name -> the tensors that it stands for, as (writer, number).
    named: dict[str, list[tuple[str, int]]] = {}
    written: dict[tuple[str, int], tuple[str, int, str]] = {}
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    for time, operation in enumerate(operations):
        read = [key for name in operation.operands for key in named.get(name, [])]
        for key in read:
            last[key] = time
        if operation.opcode == "get-tuple-element":
            parts = named.get(operation.operands[0], [])
            index = operation.index or 0
            named[operation.name] = parts[index : index + 1]
        elif operation.opcode in _NAMES:
            named[operation.name] = read
        else:
            keys = [(operation.name, i) for i in range(len(operation.tensors))]
            named[operation.name] = keys
            for key, (tensor, size) in zip(keys, operation.tensors, strict=True):
                written[key] = (tensor, size, operation.label)
                first[key] = last[key] = time
    results = set(named[operations[-1].name])
    changes: Counter[int] = Counter()
    temporaries = [key for key in first if key not in results]
    for key in temporaries:
        changes[first[key]] += written[key][1]
        changes[last[key] + 1] -= written[key][1]
    total = highest = peak = 0
    for time in sorted(changes):
        total += changes[time]
        if total > highest:
            highest, peak = total, time
    return [
        written[key]
        for key in temporaries
        if first[key] <= peak <= last[key] and written[key][1]
    ]


def _largest(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row["bytes"])[:most]
