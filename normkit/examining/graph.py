"""What a pass computed, as a graph: which value came from which, which sums close a branch.

Operators are recorded as they reach the kernels, so nothing has to be traced. A value is known by
its memory: a view is the value itself, and what is written in place is a new value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def words(text: str) -> frozenset[str]:
    """Names of operators, as a set."""
    return frozenset(text.split())


# a branch is what one of these lies on; sums of values that only differ by scale are none
PRODUCTS = words(
    "mm addmm bmm baddbmm addbmm matmul linear convolution _convolution cudnn_convolution "
    "mkldnn_convolution convolution_overrideable _trilinear einsum mv addmv grouped_mm"
)
MIXERS = PRODUCTS | words(
    "avg_pool1d avg_pool2d avg_pool3d max_pool2d_with_indices adaptive_avg_pool2d "
    "_adaptive_avg_pool2d max_pool2d _fft_r2c _fft_c2c _fft_c2r cumsum "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_fused_attention_overrideable native_layer_norm native_group_norm "
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_fused_rms_norm cudnn_batch_norm _batch_norm_with_update _batch_norm_no_update"
)
# what a value may pass and still be the same value, scaled
SCALINGS = words(
    "mul mul_ div div_ _to_copy clone native_dropout dropout copy_ roll constant_pad_nd "
    "slice_scatter index_select index gather cat flip masked_fill masked_fill_ bernoulli_ "
    "detach contiguous nan_to_num mm_scale as_strided_ squeeze_ unsqueeze_"
)
POOLINGS = SCALINGS | words(
    "mean sum avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool2d max amax "
    "max_pool2d_with_indices select slice relu relu_ gelu silu silu_ hardswish hardswish_ "
    "tanh"
)
ACTIVATIONS = words(
    "relu relu_ gelu silu silu_ hardswish hardswish_ tanh sigmoid leaky_relu leaky_relu_ elu "
    "native_dropout hardtanh hardtanh_ relu6 mish softplus"
)
SUMS = words("add add_")
# new values that take only their form from what is given
FORMS = words(
    "new_empty new_zeros new_ones new_full empty_like zeros_like ones_like full_like "
    "rand_like randn_like bernoulli"
)
LIMIT = 40_000  # operators: beyond, the ancestors of all would need gigabytes


@dataclass
class Node:
    """A value: the operator that made it, from what, in which module, and who reads it."""

    op: str
    parents: tuple[int, ...]
    where: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    parameters: tuple[str, ...] = ()  # those that the operator read
    options: tuple = ()  # its arguments that are no tensors
    data: bool = True  # it comes from what the model was given
    readers: list[tuple[int, str]] = field(default_factory=list)
    ancestors: int = 0  # as bits
    through: int = 0  # those ancestors from which a mixer lies on the way


class Record(TorchDispatchMode):
    """Within it, every operator is noted. `stack` holds the paths of the modules that run."""

    def __init__(self, named: dict[str, Tensor]) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.stack: list[str] = [""]
        self._of: dict[int, int] = {}
        self._alive: list[Tensor] = []  # memory that is given back would be given out again
        self._names: dict[int, str] = {}
        for name, tensor in named.items():
            self._names.setdefault(_memory(tensor), name)

    @property
    def is_full(self) -> bool:
        """Whether it gave up: more operators than it can hold."""
        return len(self.nodes) >= LIMIT

    def node(self, tensor: Tensor) -> int:
        """Return the value that a tensor holds now."""
        memory = _memory(tensor)
        if memory not in self._of:
            data = memory not in self._names
            self._add(tensor, Node("given", (), "", *_form(tensor), data=data))
        return self._of[memory]

    def _add(self, tensor: Tensor, node: Node) -> int:
        index = len(self.nodes)
        self.nodes.append(node)
        self._of[_memory(tensor)] = index
        self._alive.append(tensor)
        return index

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in pytree.tree_iter((args, kwargs)) if isinstance(t, Tensor)]
        before = [(self.node(t), _memory(t)) for t in given]
        out = func(*args, **kwargs)
        made = [t for t in pytree.tree_iter(out) if isinstance(t, Tensor)]
        writes = func._schema.is_mutable
        memories = {memory for _, memory in before}
        fresh = [t for t in made if writes or _memory(t) not in memories]
        if fresh and not self.is_full:
            self._note(func, args, before, fresh)
        return out

    def _note(self, func: Any, args: tuple, before: list, fresh: list[Tensor]) -> None:
        parents = tuple(dict.fromkeys(index for index, _ in before))
        names = tuple(self._names.get(memory, "") for _, memory in before)
        op = func._schema.name.split("::")[1]
        data = op not in FORMS and any(self.nodes[p].data for p in parents)
        options = tuple(a for a in args if not isinstance(a, Tensor))
        index = -1
        for tensor in fresh:
            node = Node(op, parents, self.stack[-1], *_form(tensor), names, options, data)
            node.ancestors, node.through = self._bits(parents, op)
            index = self._add(tensor, node)
        for parent in parents:
            self.nodes[parent].readers.append((index, self.stack[-1]))

    def _bits(self, parents: tuple[int, ...], op: str) -> tuple[int, int]:
        ancestors = through = 0
        for parent in parents:
            ancestors |= self.nodes[parent].ancestors | (1 << parent)
            through |= self.nodes[parent].through
        return ancestors, ancestors if op in MIXERS else through

    def forget(self) -> None:
        """Give the memory back; the graph stays."""
        self._alive.clear()
        self._of.clear()


def _memory(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # no storage: sparse, wrapped
        return id(tensor)


def _form(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    strides = tensor.stride() if tensor.layout == torch.strided else ()
    return tuple(tensor.shape), tuple(strides)


@dataclass(frozen=True)
class Sum:
    """A residual sum: its node, what passed by the branch, what came out of it."""

    node: int
    skip: int
    branch: int
    skips: frozenset[int]  # the skip, and the values that it is but for a scale
    branches: frozenset[int]
    projected: bool = False  # a matrix of its own on the way past the branch


class Graph:
    """The recorded values, and the residual sums among them."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.sums: list[Sum] = []
        self.normed: set[int] = set()  # what the norms made: said by who recorded them
        self._chain: dict[int, set[int]] = {}
        for index, node in enumerate(nodes):
            if node.op in SUMS:
                self._read(index, node)
        self.ends = {s.node: s for s in self.sums}

    def _read(self, index: int, node: Node) -> None:
        parents = [p for p in node.parents if self.nodes[p].data]
        if len(parents) != 2 or not self._same_size(*parents):
            return
        for skip, branch in (parents, parents[::-1]):
            skips = self.scaled(skip)
            chain = set().union(*(self._chain.get(s, {s}) for s in skips))
            if any(self.nodes[branch].through >> s & 1 for s in chain):
                return self._found(index, skip, branch, skips, chain)
        for skip, branch in (parents, parents[::-1]):
            product = self._projected(skip)
            if product is None or self.leads(product, branch):
                continue  # or both of one product: a rotation, a polynomial
            given = next(p for p in self.nodes[product].parents if self.nodes[p].data)
            source = min(self.scaled(given, POOLINGS))
            if self.nodes[branch].through >> source & 1:
                skips = self.scaled(skip)
                return self._found(index, skip, branch, skips, {source}, projected=True)
        return None

    def _same_size(self, first: int, second: int) -> bool:
        a, b = (self.nodes[p].shape for p in (first, second))
        return torch.Size(a).numel() == torch.Size(b).numel()  # one was recorded before a view

    def _found(
        self, index: int, skip: int, branch: int, skips: set[int], chain: set[int], **how: bool
    ) -> None:
        branches = self.scaled(branch)
        self.sums.append(Sum(index, skip, branch, frozenset(skips), frozenset(branches), **how))
        self._chain[index] = {index, *chain}

    def _projected(self, skip: int) -> int | None:
        """The product with which a shortcut projects, before perhaps a norm."""
        for _ in range(12):
            node = self.nodes[skip]
            parents = [p for p in node.parents if self.nodes[p].data]
            if not parents:
                return None
            if node.op in PRODUCTS:
                return skip
            if len(parents) > 1 and node.op not in SCALINGS | SUMS | {"sub"}:
                return None
            skip = max(parents)
        return None

    def chain(self, index: int) -> set[int]:
        """The values of the stream that a sum continues without a branch between."""
        return self._chain.get(index, {index})

    def scaled(self, index: int, passing: frozenset[str] = SCALINGS) -> set[int]:
        """Return a value and those of which it is a scaled copy."""
        found = {index}
        while True:
            node = self.nodes[index]
            parents = [p for p in node.parents if self.nodes[p].data]
            if node.op in SUMS and len(parents) == 1 and index not in self._chain:
                pass  # something fixed is added: a position, a bias
            elif node.op not in passing or len(parents) != 1:
                return found
            index = parents[0]
            found.add(index)

    def leads(self, first: int, last: int) -> bool:
        """Whether a value enters another, or is it."""
        return first == last or bool(self.nodes[last].ancestors >> first & 1)

    def producer(self, index: int) -> Node:
        """The operator that made a value, past activations and dropout."""
        node = self.nodes[index]
        while node.op in ACTIVATIONS | {"_to_copy", "clone"}:
            parents = [p for p in node.parents if self.nodes[p].data]
            if len(parents) != 1:
                break
            node = self.nodes[parents[0]]
        return node


def place(graph: Graph, entered: int, left: int) -> str | None:
    """Where a norm stands that read one value and made another; None where it cannot be told."""
    if any(entered in _stream(graph, s) and graph.leads(left, s.branch) for s in graph.sums):
        return "pre"
    ending = _sum_before(graph, entered)
    if any(left in s.branches for s in graph.sums):
        return "branch end"
    if any(left in s.skips for s in graph.sums):
        return "post" if ending else _beginning(graph, entered, left)
    if ending and not _next_stage(graph, left) and not _on_branch(graph, entered, left):
        return "post" if _is_post(graph, ending) else "final"
    return "inside"


def _stream(graph: Graph, s: Sum) -> set[int]:
    return set().union(s.skips, *(graph.chain(each) for each in s.skips))


def _sum_before(graph: Graph, entered: int) -> Sum | None:
    """The residual sum that a value is, but for scale, pooling or selection."""
    found = graph.scaled(entered, POOLINGS)
    return next((graph.ends[n] for n in sorted(found, reverse=True) if n in graph.ends), None)


def _beginning(graph: Graph, entered: int, left: int) -> str:
    before = any(graph.leads(s.node, entered) for s in graph.sums)
    if any(s.projected and left in s.skips for s in graph.sums):
        return "branch end"
    return "inside" if before else "start"


def _next_stage(graph: Graph, left: int) -> bool:
    """Whether a later stream begins with what the norm made, after a product."""
    return any(
        graph.leads(left, min(_stream(graph, s))) and not _as_memory(graph, left, s)
        for s in graph.sums
        if graph.leads(left, s.node)
    )


def _as_memory(graph: Graph, left: int, s: Sum) -> bool:
    """Whether a stream has what the norm made only from a branch: an encoder's, by attention."""
    first = min(_stream(graph, s))
    return any(
        graph.leads(e.node, first) and graph.leads(left, e.branch) and not graph.leads(left, e.skip)
        for e in graph.sums
    )


def _on_branch(graph: Graph, entered: int, left: int) -> bool:
    """Whether what the norm made is added to a stream that began before what it read."""
    return any(
        graph.leads(left, s.branch) and any(graph.leads(c, entered) for c in _stream(graph, s))
        for s in graph.sums
    )


def _is_post(graph: Graph, ending: Sum) -> bool:
    """Whether what passes by the branch is what a norm made."""
    return bool(graph.normed & ending.skips)


@dataclass(frozen=True)
class Written:
    """A norm that stands as single operators in a larger forward."""

    where: str
    kind: str
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    entered: int
    left: int


def handwritten(graph: Graph) -> Iterator[Written]:
    """Yield where a value is multiplied by the inverse root of its own mean square."""
    for index, node in enumerate(graph.nodes):
        root = node.op in {"rsqrt", "sqrt", "reciprocal"} or _is_root(node)
        if (root or node.op in DEVIATIONS) and node.data:
            spread = _spread(graph, node) if root else _over(graph, node, True)
            left = _used(graph, index, node) if spread else None
            if spread and left is not None:
                centred, axes, entered, shape = spread
                kind = "batch" if 0 in axes else "layer" if centred else "rms"
                yield Written(node.where, kind, axes, shape, entered, left)


DEVIATIONS = {"std", "std_mean"}


def _is_root(node: Node) -> bool:
    powers = [option for option in node.options if isinstance(option, float)]
    return node.op == "pow" and bool(powers) and abs(powers[0]) == 0.5


def _spread(graph: Graph, node: Node) -> tuple[bool, tuple[int, ...], int, tuple[int, ...]] | None:
    """Of what a root is taken: a variance or mean square, past the ε; over which axes, of what."""
    for _ in range(4):
        parents = [p for p in node.parents if graph.nodes[p].data]
        if len(parents) != 1:
            return None
        last, node = parents[0], graph.nodes[parents[0]]
        if node.op in {"var", "var_mean"}:
            return _over(graph, node, True)
        if node.op == "mean":
            square = graph.nodes[node.parents[0]]
            squared = square.op in {"pow", "square"} or (
                square.op == "mul" and len(square.parents) == 1
            )
            if not squared:
                return None
            source = graph.nodes[square.parents[0]]
            centred = source.op == "sub" and any(
                graph.nodes[p].op in {"mean", "var_mean"} for p in source.parents
            )
            found = _over(graph, node, centred)
            first = source.parents[0] if centred else square.parents[0]
            return found and (centred, found[1], first, found[3])
        if node.op not in {"add", "add_", "_to_copy", "clamp", "clamp_min", "maximum"} or last < 0:
            return None
    return None


def _over(
    graph: Graph, node: Node, centred: bool
) -> tuple[bool, tuple[int, ...], int, tuple[int, ...]] | None:
    given = graph.nodes[node.parents[0]]
    dims = next((o for o in node.options if isinstance(o, (list, tuple)) and o), None)
    if dims is None:
        return None
    axes = tuple(sorted(int(d) % max(len(given.shape), 1) for d in dims))
    return centred, axes, node.parents[0], given.shape


def _used(graph: Graph, root: int, node: Node) -> int | None:
    """The product that the root enters, if the other factor is of the same source."""
    for reader, where in node.readers:
        made = graph.nodes[reader]
        parents = len([p for p in made.parents if graph.nodes[p].data])
        if made.op in {"mul", "div", "mul_", "div_"} and where == node.where and parents == 2:
            return reader
        if made.op in {"add", "add_", "clamp", "clamp_min"} and parents == 1:
            return _used(graph, reader, made)  # ε beside the root
    return None
