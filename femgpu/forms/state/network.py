"""A Jacobian action as a network of sums, for regrouping its products.

Vertices are values that depend on the direction, an edge from x to y with the weight c stands for the term c x in the
sum y. Eliminating a vertex joins the edges through it and multiplies their weights, which depend on the state only: the
work moves from the direction to the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from femgpu.forms.graph.copying import copy_nodes
from femgpu.forms.graph.graph import INPUT
from femgpu.forms.graph.identities import PRIME, SharedGraph
from femgpu.forms.graph.levels import CELL, DIRECTION, POINT, STATE, UNIFORM, join
from femgpu.forms.state.products import Products

# A sum: the weight of each vertex in it.
Terms = dict[int, int]
# What weights depend on that may be stored.
_STORED = (CELL, STATE)


class Network:
    """The network of an action.

    Args:
        graph: holds the action and receives new weights.
        roots: nodes of the outputs, linear in the direction.
        num_qpts: points of a cell, which share the weights that are constant on it.

    Attributes:
        terms: the sum that each vertex is, inputs excepted. Vertices are nodes of the action or, if negative, made here.
    """

    def __init__(self, graph: SharedGraph, roots: Sequence[int], num_qpts: int = 1) -> None:
        self.graph = graph
        self.num_qpts = num_qpts
        self.roots = list(roots)
        self.inputs = [node for node in direction_nodes(graph, roots) if graph.nodes[node][0] == INPUT]
        self.terms: dict[int, Terms] = {}
        self._products = Products(graph)
        self._expansions: dict[int, Terms] = {}  # of vertices below conditions, down to the inputs
        self._place: dict[int, tuple[int, int]] = {}  # of each vertex that was made: next to a node, how far behind
        for node in direction_nodes(graph, roots):
            if graph.nodes[node][0] != INPUT:
                self.terms[node] = self._terms(node)
        self._drop_unused()

    def collect(self) -> None:
        """Eliminates all vertices between inputs and outputs."""
        collected: dict[int, Terms] = {}
        for vertex in self._ordered():
            collected[vertex] = self._expanded(self.terms[vertex], collected)
        self.terms = {root: collected[root] for root in self.roots if root in collected}

    def simplify(self, weight_cost: float) -> None:
        """Eliminates vertices as long as this saves operations on directions.

        Args:
            weight_cost: what a new weight costs, in operations; vertices whose elimination makes the same share it.
        """
        users, counts = self._users(), self._counts()
        fixed = set(self.roots)
        eliminated = True
        while eliminated:
            eliminated = False
            proposals = {vertex: self._proposal(vertex, users[vertex], counts) for vertex in self.terms if vertex not in fixed}
            shares = Counter(key for _, new in proposals.values() for key in new)
            touched: set[int] = set()
            for vertex, (saved, new) in proposals.items():
                if vertex in touched or not touched.isdisjoint(users[vertex]):
                    saved, new = self._proposal(vertex, users[vertex], counts)
                parts = {key: 1 / max(shares[key], 1) for key in new if not counts[key]}
                if saved >= weight_cost * sum(part / (self.num_qpts if new[key] == CELL else 1) for key, part in parts.items()):
                    touched.update(users[vertex], self.terms[vertex])
                    self._eliminate(vertex, users, counts)
                    eliminated = True

    def factor(self) -> None:
        """Multiplies vertices by factors that the weights of their uses share, where that leaves fewer weights."""
        counts = self._counts()
        for vertex, users in self._users().items():
            weights = {user: self.terms[user][vertex] for user in users}
            while taken := self._shared_factor(weights, counts):
                factor, rests = taken
                counts.subtract(self._scalars({user: weights.pop(user) for user in rests}))
                counts.update(self._scalars(rests))
                self._multiply(vertex, factor, rests)
                counts.update(self._scalars({vertex: factor}))

    def separate(self) -> None:
        """Takes factors that all weights of a sum share out of it, where this leaves weights that are constant on a cell."""
        level = self.graph.level
        for vertex, terms in list(self.terms.items()):
            common = [factor for factor in self._products.common(terms.values()) if level[factor] in (POINT, STATE)]
            rests = {x: self._products.without(weight, common) for x, weight in terms.items()}
            if common and len(rests) > 1 and {level[rest] for rest in rests.values()} in ({CELL}, {CELL, UNIFORM}):
                made = -1 - len(self._place)
                self._place[made] = vertex, -1
                self.terms[made] = rests
                self.terms[vertex] = {made: self._products.product(common)}

    def rebuilt(self) -> tuple[SharedGraph, list[int]]:
        """The network as a graph, and the outputs in it; equal weights in a sum are multiplied once."""
        safe = {vertex: {x: self.graph.safest(weight) for x, weight in terms.items()} for vertex, terms in self.terms.items()}
        target = SharedGraph(self.graph.levels)
        weights = [weight for terms in safe.values() for weight in terms.values()]
        nodes = copy_nodes(self.graph, weights + self.inputs, target, {})
        for vertex in self._ordered():
            nodes[vertex] = self._sum(safe[vertex], nodes, target)
        return target, [nodes[root] for root in self.roots]

    def _sum(self, terms: Terms, nodes: Mapping[int, int], target: SharedGraph) -> int:
        groups: dict[int, int] = {}
        factors: dict[int, int] = {}
        for vertex, weight in terms.items():
            key = self.graph.weight_class[weight]
            factor = factors.setdefault(key, weight)
            same_sign = self.graph.residue[factor] == self.graph.residue[weight]
            term = nodes[vertex] if same_sign else target.neg(nodes[vertex])
            groups[key] = target.add(groups[key], term) if key in groups else term
        total = target.zero
        for key, group in groups.items():
            total = target.add(total, target.mul(nodes[factors[key]], group))
        return total

    def _terms(self, node: int) -> Terms:
        graph = self.graph
        kind, *operands = graph.nodes[node]
        if kind == "*":
            a, b = operands
            return {b: a} if graph.level[a] < DIRECTION else {a: b}
        if kind == "?":
            return self._select(*operands)
        if kind == "neg":
            return {operands[0]: graph.neg(graph.one)}
        return {operands[0]: graph.one, operands[1]: graph.one if kind == "+" else graph.neg(graph.one)}

    def _select(self, condition: int, a: int, b: int) -> Terms:
        # Down to the inputs, which are finite: a vertex between may be infinite where its branch is not taken.
        left, right = self._expansion(a), self._expansion(b)
        zero = self.graph.zero
        return {x: self.graph.select(condition, left.get(x, zero), right.get(x, zero)) for x in {**left, **right}}

    def _expansion(self, root: int) -> Terms:
        if self.graph.value(root) == 0:
            return {}
        for node in direction_nodes(self.graph, (root,)):
            if node in self.terms and node not in self._expansions:
                self._expansions[node] = self._expanded(self.terms[node], self._expansions)
        return self._expansions.get(root, {root: self.graph.one})

    def _expanded(self, terms: Terms, known: Mapping[int, Terms]) -> Terms:
        result: Terms = {}
        for vertex, weight in terms.items():
            self._add_multiple(result, weight, known.get(vertex, {vertex: self.graph.one}))
        return result

    def _add_multiple(self, terms: Terms, weight: int, added: Terms) -> None:
        for vertex, inner in added.items():
            product = self._products.mul(weight, inner)
            total = self._products.add(terms[vertex], product) if vertex in terms else product
            if self.graph.residue[total]:
                terms[vertex] = total
            else:
                terms.pop(vertex, None)

    def _proposal(self, vertex: int, users: Iterable[int], counts: Counter[int]) -> tuple[int, dict[int, int]]:
        """Operations on directions that eliminating a vertex saves; classes of weights that are not there yet, and their levels."""
        level, inner = self.graph.level, self.terms[vertex]
        saved = _operations(self._classes(inner))
        new: dict[int, int] = {}
        for user in users:
            terms = self.terms[user]
            joined = self._joined(terms, vertex)
            saved += _operations(self._classes(terms)) - _operations(joined.values())
            for x, key in joined.items():
                if x in inner and key != 1 and not counts.get(key):
                    its_level = join(level[terms[x]] if x in terms else UNIFORM, level[inner[x]], level[terms[vertex]])
                    if its_level in _STORED:
                        new[key] = its_level
        return saved, new

    def _classes(self, terms: Terms) -> list[int]:
        weight_class = self.graph.weight_class
        return [weight_class[weight] for weight in terms.values()]

    def _joined(self, terms: Terms, vertex: int) -> dict[int, int]:
        """The class of each weight of a sum if a vertex in it were eliminated; makes no nodes."""
        residue = self.graph.residue
        values = {x: residue[weight] for x, weight in terms.items()}
        factor = values.pop(vertex)
        for x, weight in self.terms[vertex].items():
            values[x] = (values.get(x, 0) + residue[weight] * factor) % PRIME
        return {x: min(value, PRIME - value) for x, value in values.items() if value}

    def _eliminate(self, vertex: int, users: dict[int, dict[int, None]], counts: Counter[int]) -> None:
        inner = self.terms.pop(vertex)
        counts.subtract(self._scalars(inner))
        for x in inner:
            users[x].pop(vertex)
        for user in users.pop(vertex):
            terms = self.terms[user]
            counts.subtract(self._scalars(terms))
            self._add_multiple(terms, terms.pop(vertex), inner)
            counts.update(self._scalars(terms))
            for x in inner:
                if x in terms:
                    users[x][user] = None
                else:
                    users[x].pop(user, None)

    def _shared_factor(self, weights: Terms, counts: Counter[int]) -> tuple[int, Terms] | None:
        """A factor that some weights of the uses of a vertex share, and what is left of these; None if not worth it.

        Args:
            weights: by user.
            counts: how often each class of weights occurs in the network.
        """
        having: dict[int, list[int]] = {}
        for user, weight in weights.items():
            for factor in dict.fromkeys(self._products.factors(weight)):
                having.setdefault(factor, []).append(user)
        for users in sorted(having.values(), key=len, reverse=True):
            old = {user: weights[user] for user in users}
            common = self._products.common(old.values())
            factor = self._products.product(common)
            rests = {user: self._products.without(weight, common) for user, weight in old.items()}
            after = set(self._scalars({**rests, -1: factor}))
            gone = sum(counts[key] == uses and key not in after for key, uses in Counter(self._scalars(old)).items())
            come = sum(not counts[key] for key in after)
            if len(users) > 1 and gone > come:
                return factor, rests
        return None

    def _multiply(self, vertex: int, factor: int, rests: Terms) -> None:
        """Makes a vertex that is a multiple of another one, and takes its place in some sums.

        Args:
            vertex: the other one.
            factor: the multiple.
            rests: the new weight by user.
        """
        made = -1 - len(self._place)
        node, distance = self._place.get(vertex, (vertex, 0))
        self._place[made] = node, distance + 1
        self.terms[made] = {vertex: factor}
        for user, rest in rests.items():
            del self.terms[user][vertex]
            self.terms[user][made] = rest

    def _scalars(self, terms: Terms) -> list[int]:
        """Classes of the weights that differ from cell to cell."""
        found = [self.graph.weight_class[weight] for weight in terms.values() if self.graph.level[weight] in _STORED]
        return [key for key in found if key != 1]

    def _counts(self) -> Counter[int]:
        return Counter(key for terms in self.terms.values() for key in self._scalars(terms))

    def _users(self) -> dict[int, dict[int, None]]:
        """The vertices in whose sums each vertex is, in order."""
        users: dict[int, dict[int, None]] = {}
        for vertex, terms in self.terms.items():
            users.setdefault(vertex, {})
            for x in terms:
                users.setdefault(x, {})[vertex] = None
        return users

    def _ordered(self) -> list[int]:
        """The vertices, each behind those in its sum."""
        return sorted(self.terms, key=lambda vertex: self._place.get(vertex, (vertex, 0)))

    def _drop_unused(self) -> None:
        used = set(self.roots)
        for vertex in reversed(self.terms):
            if vertex in used:
                used.update(self.terms[vertex])
        self.terms = {vertex: terms for vertex, terms in self.terms.items() if vertex in used}


def direction_nodes(graph: SharedGraph, roots: Iterable[int]) -> list[int]:
    """The nodes that depend on the direction and that roots need, operands before what uses them."""
    return [node for node in graph.live(roots) if graph.level[node] == DIRECTION]


def _operations(classes: Collection[int]) -> int:
    """Operations of a sum whose weights are of these classes: equal ones are multiplied once."""
    return len({1, *classes}) + len(classes) - 2 if classes else 0
