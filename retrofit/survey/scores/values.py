"""What an expression that may be a score is about: its root, its parts, and the statements that make its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from retrofit.survey.branches import left_before
from retrofit.survey.conditions import SOMETHING, constant
from retrofit.survey.counters import changes
from retrofit.survey.displays import item_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts
from retrofit.survey.nodes import dotted, last_name, method_name, names_in, nodes_in, receiver, unquoted
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.words import COMPUTES, Candidate
from retrofit.survey.sites.loop import EpochLoop

_DISPLAYS = (cst.Dict, cst.List, cst.Tuple, cst.DictComp, cst.ListComp)
#: Methods that change of what a list or a dictionary consists, or in what order.
_ALTERS = ("append", "extend", "insert", "pop", "remove", "reverse", "sort", "update", "setdefault")
#: What makes a dictionary, beside displays.
_MAKES_DICT = re.compile(r"dict|(collections\.)?(defaultdict|OrderedDict|Counter)")
_MARGIN = (cst.Add, cst.Subtract, cst.Multiply)


def written(index: Index, node: cst.CSTNode) -> str:
    """Return the code of a node, perhaps of one that stands in no file."""
    return index.source.code(node) if node in index.parents else cst.Module(body=[]).code_for_node(node)


def written_bare(index: Index, node: cst.BaseExpression) -> str:
    """Return the code of a node without parentheses around it, if it needs none."""
    code = written(index, node)
    return code[1:-1].strip() if node.lpar and "\n" not in code else code


def in_loop(index: Index, loop: EpochLoop, node: cst.CSTNode) -> bool:
    """Whether a node stands in the epoch loop, and in nothing that was left out, as what never runs is."""
    if node not in index.parents:
        return False
    statement, around = index.statement(node), loop.statement
    return statement.scope is around.scope and around in statement.ancestors


def code_of(index: Index, body: EpochLoop | Scope) -> Callable[[cst.CSTNode], bool]:
    """Return a test whether a node stands in the epoch loop, or in a function."""
    if isinstance(body, EpochLoop):
        return lambda node: in_loop(index, body, node)
    return lambda node: index.scope_of(node) is body


def bindings_of(index: Index, loop: EpochLoop, name: str | None) -> list[Binding]:
    """Return where the epoch loop itself gives a variable its value."""
    return [b for b in index.bindings if b.target == name and in_loop(index, loop, b.statement.node)]


def code_within(index: Index, inner: cst.CSTNode, outer: cst.CSTNode) -> bool:
    first, last = index.source.span(inner)
    start, end = index.source.span(outer)
    return start <= first and last <= end


def root_of(node: cst.BaseExpression) -> str:
    """Return the name that an expression such as `stats["acc"]`, `top1.avg` or `np.mean(accs)` is about."""
    *_, root = way_to_root(node)
    return root.value if isinstance(root, cst.Name) else ""


def variable_of(node: cst.BaseExpression) -> str:
    """Return the variable that an expression is about, of an object its attribute: `self.stats` of its item."""
    names = [name for part in way_to_root(node) if (name := dotted(part)) not in (None, "self")]
    return names[-1] or "" if names else ""


def bare_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `acc` for `float(acc)`, `acc.item()` and `float(format(acc, ".4f"))`."""
    if not isinstance(node, cst.Call):
        return node
    if isinstance(node.func, cst.Name) and node.func.value in ("float", "int", "round", "format") and node.args:
        return bare_of(node.args[0].value)
    held = receiver(node) if method_name(node) == "item" and not node.args else None
    return node if held is None else bare_of(held)


def formatted(node: cst.CSTNode) -> bool:
    """Whether an expression is a string that is made of something: `f"{acc}"`, `"%.2f" % acc`, `", ".join(parts)`."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Modulo) and isinstance(node.left, cst.BaseString)
    if isinstance(node, cst.ConcatenatedString):
        return formatted(node.left) or formatted(node.right)
    joined = method_name(node) == "join" and isinstance(receiver(node), cst.BaseString)
    made = isinstance(node, cst.Call) and dotted(node.func) in ("str", "repr")
    return isinstance(node, cst.FormattedString) or joined or made or method_name(node) == "format"


def without_margin(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the `loss` of `loss + min_delta < best`, where small steps do not count, or the `best` of `best or 9`."""
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return node.left
    return node.left if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _MARGIN) else node


def way_to_root(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield an expression and what it takes its value out of: `rs["val"]["acc"]`, `rs["val"]`, `rs`."""
    yield (node := bare_of(node))
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call, cst.BinaryOperation)):
        if isinstance(node, cst.Call) and node.args and COMPUTES.match(dotted(node.func) or ""):
            node = node.args[0].value
        elif isinstance(node, cst.BinaryOperation):
            node = node.left if root_of(node.left) else node.right
        else:
            node = node.func if isinstance(node, cst.Call) else node.value
        yield node


def whole_of(index: Index, candidate: Candidate) -> cst.BaseExpression:
    """Return the expression of a candidate with the item that is taken out of it."""
    rest = written_bare(index, candidate.node) + candidate.rest if candidate.rest else ""
    whole = candidate.written or rest
    return cst.parse_expression(whole) if whole else candidate.node


def as_item(index: Index, node: cst.BaseExpression) -> str:
    """Return an expression's code, `stats.get(key)` as the `stats[key]` that is assigned."""
    code = unquoted(written(index, node))
    return re.sub(r"\.get\(([^(),]+)(,[^(),]+)?\)$", r"[\1]", code)


def element_of(value: cst.BaseExpression, item: int | None) -> cst.BaseExpression | None:
    if item is None:
        return value
    return value.elements[item].value if isinstance(value, cst.Tuple) and item < len(value.elements) else None


def part_of(index: Index, value: cst.BaseExpression, item: cst.Subscript) -> cst.BaseExpression | None:
    """Return what a subscript takes out of a dictionary, list or tuple that is written out."""
    key = unquoted(index.source.code(item.slice[0].slice))
    return next((part for name, part in written_items(index, value) if unquoted(name) == key), None)


def written_items(index: Index, value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """Return the code of the keys, and the items, of a tuple, list or dictionary that is written out."""
    if isinstance(value, cst.Call) and is_dict(index, value):
        return [part for arg in value.args for part in items_given(index, arg)]
    if isinstance(value, cst.Dict):
        pairs = [element for element in value.elements if isinstance(element, cst.DictElement)]
        return [(index.source.code(pair.key), pair.value) for pair in pairs]
    if isinstance(value, (cst.Tuple, cst.List)):
        return [(str(number), element.value) for number, element in enumerate(value.elements)]
    return []


def items_given(index: Index, arg: cst.Arg) -> list[tuple[str, cst.BaseExpression]]:
    """Return the same of an argument of which a dictionary is made: `f1=x`, `{"f1": x}`, `[("f1", x)]`."""
    if arg.keyword is not None:
        return [(repr(arg.keyword.value), arg.value)]
    if isinstance(arg.value, cst.Dict):
        return written_items(index, arg.value)
    parts = [part for _, part in written_items(index, arg.value)]
    pairs = [[one.value for one in part.elements] for part in parts if isinstance(part, (cst.Tuple, cst.List))]
    return [(index.source.code(pair[0]), pair[1]) for pair in pairs if len(pair) == 2]


def mean_of(index: Index, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `np.mean(x)` or `x.mean()` where ``node`` is the `x` of it."""
    parent = index.parents[node]
    outer = index.parents[parent]
    if isinstance(parent, cst.Attribute) and parent.attr.value == "mean" and isinstance(outer, cst.Call):
        return None if outer.args else outer
    if isinstance(parent, cst.Arg) and isinstance(outer, cst.Call) and len(outer.args) == 1:
        return outer if re.search(r"\.(nan)?mean$", dotted(outer.func) or "") else None
    return None


def is_object(index: Index, value: cst.BaseExpression) -> bool:
    """Whether an expression makes an object of a class, as its name tells: `Metrics(...)`, but no dictionary."""
    name = last_name(value.func) if isinstance(value, cst.Call) else ""
    return name[:1].isupper() and "Tensor" not in name and not is_dict(index, value)


def is_dict(index: Index, value: cst.BaseExpression) -> bool:
    """Whether an expression visibly makes a dictionary."""
    made = index.qualified(value.func) if isinstance(value, cst.Call) else ""
    return isinstance(value, (cst.Dict, cst.DictComp)) or _MAKES_DICT.fullmatch(made) is not None


def is_collection(index: Index, value: cst.BaseExpression) -> bool:
    """Whether an expression is visibly no single number."""
    displays = (cst.Tuple, cst.List, cst.Set, cst.ListComp, cst.SetComp)
    made = index.qualified(value.func) if isinstance(value, cst.Call) else ""
    arrays = r"(numpy|torch)\.(zeros|ones|array|stack|zeros_like|cat|concatenate)|list|tuple"
    return isinstance(value, displays) or is_dict(index, value) or re.fullmatch(arrays, made) is not None


def is_size(node: cst.BaseExpression) -> bool:
    """Whether an expression is how much there is of something, as in `if points.size(1) < limit: limit = ...`."""
    if isinstance(node, cst.Subscript):
        return last_name(node.value) == "shape"
    return isinstance(node, cst.Call) and (dotted(node.func) == "len" or method_name(node) in ("size", "numel"))


def taken_by_turn(
    index: Index,
    inside: Callable[[cst.CSTNode], bool],
    node: cst.BaseExpression,
    statement: Statement | None = None,
) -> bool:
    """Whether an expression is a loop's variable or is taken by one, as `measures[i]` is: one of several values.

    Only loops ``inside`` the code count, and comprehensions around the expression, but none over phases written out,
    such as `for phase in ["train", "val"]`.
    """
    statement = statement or index.statement(node)
    around = [part.node for part in statement.ancestors if isinstance(part.node, cst.For)]
    loops = [one for one in around if inside(one) and not of_phases(index, one)]
    variables = {name for one in loops for name in names_in(one.target, called=False)} | names_around(index, node)
    bare = bare_of(node)
    if isinstance(bare, cst.Subscript):
        return any(name in variables for element in bare.slice for name in names_in(element, called=False))
    return isinstance(bare, cst.Name) and bare.value in variables


def names_around(index: Index, node: cst.CSTNode) -> set[str]:
    """Return the names that have their value of comprehensions and lambdas around an expression, and outside none."""
    found = set[str]()
    for around in index.ancestors(node) if node in index.parents else ():
        if isinstance(around, cst.BaseStatement):
            break
        if isinstance(around, cst.Lambda):
            found.update(one.name.value for one in nodes_in(around.params) if isinstance(one, cst.Param))
        walk = around.for_in if isinstance(around, cst.BaseComp) else None
        while walk is not None:
            found.update(names_in(walk.target))
            walk = walk.inner_for_in
    return found


def of_phases(index: Index, node: cst.CSTNode) -> bool:
    """Whether a loop goes over phases of an epoch: `["train", "val"]`, `[("train", loader), ("val", other)]`."""
    over = _written_out(index, node)
    if over is None or (isinstance(node, cst.For) and over is not node.iter and phases_of(index, node) is None):
        return False
    return any("train" in word for word in index.source.words(over))


def of_one_turn(index: Index, loop: EpochLoop, node: cst.BaseExpression) -> Callable[[str], str]:
    """Return what writes code of a turn of a loop inside the epoch loop so that it means the same behind that loop.

    What is compared under `if split == "val":` is of that turn, and not of the last: `metrics["val"]`.
    """
    pins = _pinned(index, loop, node)

    def write(code: str) -> str:
        whole: cst.CSTNode = cst.parse_expression(code)
        said = {one.attr for one in nodes_in(whole) if isinstance(one, cst.Attribute)}
        said |= {one.keyword for one in nodes_in(whole) if isinstance(one, cst.Arg) and one.keyword is not None}
        for read in [one for one in nodes_in(whole) if isinstance(one, cst.Name) and one not in said]:
            changed = whole.deep_replace(read, pins[read.value]) if read.value in pins else whole
            whole = changed if isinstance(changed, cst.CSTNode) else whole
        return cst.Module([]).code_for_node(whole)

    return write if pins else str


def turn_that_fills(index: Index, loop: EpochLoop, expression: str) -> tuple[str, str, str]:
    """Return what an inner loop's variable is in the turn that fills an item, and by what the item is there.

    That is `split`, `"val"` of `metrics["val"]`, where a loop fills `metrics[split]`. All are "" where each turn comes
    to it, or no other one does; so is the last where no turn is passed over, or an epoch before may have filled it.
    """
    found: list[tuple[str, str, str]] = []
    for part in way_to_root(cst.parse_expression(f"({expression})")):  # it may give a name its value
        key = part.slice[0].slice if isinstance(part, cst.Subscript) and len(part.slice) == 1 else None
        if not isinstance(part, cst.Subscript) or not isinstance(key, cst.Index) or constant(key.value) is SOMETHING:
            continue
        held, value = (cst.Module([]).code_for_node(one) for one in (part.value, key.value))
        begins = any(b.target == held and loop.statement in b.statement.path[:-1] for b in index.bindings)
        for filling in index.items:
            here = filling.statement
            turning = [name for one in turned_within(index, loop, here.node) for name in names_in(one.target)]
            filled = [name for name in turning if filling.target.startswith(f"{held}[{name}]")]
            if filled and filled[0] not in _pinned(index, loop, here.node):
                found.append((filled[0], value, f"{value} in {held}" if begins and left_before(here) else ""))
    return found[0] if found else ("", "", "")


def _pinned(index: Index, loop: EpochLoop, node: cst.CSTNode) -> dict[str, cst.BaseExpression]:
    """Return the constants that variables of loops inside the epoch loop are where some code runs."""
    turning = {name for part in turned_within(index, loop, node) for name in names_in(part.target)}
    found: dict[str, cst.BaseExpression] = {}
    for test, holds in index.guards(node) if turning else ():
        for part in conjuncts(test) if holds else ():
            if not isinstance(part, cst.Comparison) or len(part.comparisons) != 1:
                continue
            name, asked = dotted(part.left), part.comparisons[0]
            if (
                name in turning
                and isinstance(asked.operator, cst.Equal)
                and constant(asked.comparator) is not SOMETHING
            ):
                found[name] = asked.comparator
    return found


def turned_within(index: Index, loop: EpochLoop, node: cst.CSTNode) -> list[cst.For]:
    """Return the loops around a node that stand in the epoch loop."""
    path = index.statement(node).path if node in index.parents else ()
    around = path[path.index(loop.statement) + 1 :] if loop.statement in path else ()
    return [part.node for part in around if isinstance(part.node, cst.For)]


def phases_of(index: Index, node: cst.CSTNode) -> tuple[str, list[object]] | None:
    """Return the variable of a loop over constants that are written out, and these in turn; None for another loop."""
    over = _written_out(index, node)
    if over is None or not isinstance(node, cst.For):
        return None
    items = [item for _, item in written_items(index, over)]
    if isinstance(over, cst.Dict):
        items = [one.key for one in over.elements if isinstance(one, cst.DictElement)]
    first = [one.elements[0].value if isinstance(one, cst.Tuple) and one.elements else one for one in items]
    name = dotted(node.target.elements[0].value if isinstance(node.target, cst.Tuple) else node.target)
    values = [constant(one) for one in first]
    return (name, values) if name is not None and values and SOMETHING not in values else None


def phases_asked(index: Index, node: cst.CSTNode) -> tuple[str, list[object]] | None:
    """Return the variable of a loop over what is not written out, the strings that it is compared with, and another."""
    if not isinstance(node, cst.For) or _written_out(index, node) is not None:
        return None
    name = dotted(node.target.elements[0].value if isinstance(node.target, cst.Tuple) else node.target)
    compared = [
        one.comparisons[0].comparator
        for one in nodes_in(node)
        if isinstance(one, cst.Comparison) and len(one.comparisons) == 1 and dotted(one.left) == name
    ]
    words = dict.fromkeys(one for one in map(constant, compared) if isinstance(one, str))
    return (name, [*words, ""]) if words and name is not None else None


def _written_out(index: Index, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the list or dictionary through which a loop goes, itself or by its keys or items; None for another."""
    if not isinstance(node, cst.For):
        return None
    over = node.iter
    held = receiver(over) if method_name(over) in ("items", "keys") else None
    name = dotted(over if held is None else held)
    made = over if name is None else _only_value(index, name, index.scope_of(node))
    kinds = (cst.Dict,) if held is not None else (cst.Dict, cst.List, cst.Tuple)
    filled = any(b.target.partition("[")[0] == name for b in index.items)
    filled |= any(dotted(one) == name for _, one in index.method_calls(*_ALTERS)) if name is not None else False
    return made if isinstance(made, kinds) and not filled else None


def _only_value(index: Index, name: str, scope: Scope) -> cst.BaseExpression | None:
    """Return the value of what a name means in a scope, None where it may have several, as a parameter has."""
    home, last = _home(name, scope), name.rpartition(".")[2]
    named = [b for b in index.bindings if b.target == name and _home(name, b.statement.scope) is home]
    others = [b for b in index.bindings if name.startswith(f"{scope.own}.") and b.target.endswith(f".{last}")]
    alone = len({*named, *others}) == len(named) == 1 and name not in home.parameters  # of no other class's objects
    return named[0].value if alone and named[0].item is None else None


def _home(name: str, scope: Scope) -> Scope:
    """Return the scope to which a name belongs that another one reads: the class for an attribute of its objects."""
    root = name.partition(".")[0]
    holder = scope.enclosing_class if root == scope.own != name else None
    return holder or next((one for one in scope.searched if root in one.names - one.outer), scope.module)


def trains(index: Index, function: Scope) -> bool:
    """Whether a function holds a backward pass."""
    return calls_method(index, function, "backward")


def calls_method(index: Index, function: Scope, name: str) -> bool:
    """Whether a function, or one in it, calls a method of a name, whatever it is called on."""
    return any(method_name(call) == name for call in index.calls_in(index.statement(function.node)))


#: What gives a name a value, beside what has it as its `target`: also `with tqdm(...) as bar`, and `first, *rest = x`.
_TARGETS = (cst.AssignTarget, cst.Element, cst.StarredElement, cst.AsName)


def target_node(index: Index, statement: Statement, target: str) -> cst.BaseExpression:
    kind: type[cst.Name | cst.Attribute] = cst.Attribute if "." in target else cst.Name
    for node in index.nodes_of(kind):
        if dotted(node) == target and index.statement(node) is statement:
            parent = index.parents[node]
            if isinstance(parent, _TARGETS) or getattr(parent, "target", None) is node:
                return node
    raise LookupError(target)


def tells_the_turn(flow: Flow, loop: EpochLoop, node: cst.BaseExpression) -> bool:
    """Whether an expression is the number of the turn, or is made of it and of written numbers alone.

    So is `score = epoch + 1`, and what an object keeps of the number that it is given: at which turn the best was.
    """
    counted = [b.target for b in flow.index.bound_in(loop.statement) if numbers_turns(loop, b)]
    turns = {flow.member(name, loop.scope) for name in ([loop.target] if loop.target else counted)}
    waiting = [(node, flow.index.scope_of(node) if node in flow.index.parents else loop.scope)]
    told = False
    for one, scope in waiting:  # which grows
        if any(isinstance(part, (cst.Call, cst.Subscript)) for part in nodes_in(one)):
            return False
        for name in names_in(one):
            variable = flow.member(name, scope)
            told |= variable in turns
            sources = flow.sources(variable) if variable not in turns else []
            made = [(item_of(b.value, b.item) if b.item is not None else b.value, b.scope) for b in sources if b.value]
            known = [(value, inside) for value, inside in made if value is not None]
            if variable not in turns and not len(known) == len(sources) > 0:
                return False
            waiting += [value for value in known if value not in waiting]
    return told


def numbers_turns(loop: EpochLoop, binding: Binding) -> bool:
    """Whether a variable is the number of the epoch loop's turn: `epoch += 1` in each."""
    counts = any(isinstance(one.value, cst.Integer) for one in changes(binding))
    return counts and binding.statement.parent is loop.statement


def deleted_later(index: Index, made: Statement, name: str) -> Statement | None:
    """Return where a name is deleted first after a place of its function, `del stats`; None where it is not."""
    found = (
        later
        for later in index.statements
        if later.scope is made.scope and later.order > made.order and isinstance(later.node, cst.SimpleStatementLine)
        for small in later.node.body
        if isinstance(small, cst.Del) and name in names_in(small)
    )
    return next(found, None)


def is_set_by_variable(binding: Binding) -> bool:
    """Whether an item is set whose key is worked out, which may be any: `losses[name] = mean(values)`."""
    return binding.target.partition("[")[2][:1].isidentifier()


def only_begins(index: Index, binding: Binding) -> bool:
    """Whether what a variable is given still has to be filled: an empty collection, one of constants, a new meter."""
    return still_empty(index, binding.value)


def still_empty(index: Index, value: cst.BaseExpression | None) -> bool:
    """Whether what an expression makes still has to be filled."""
    return isinstance(value, (cst.Call, cst.BinaryOperation, *_DISPLAYS)) and _is_empty(index, value)


def _is_empty(index: Index, value: cst.BaseExpression) -> bool:
    """Whether nothing has been measured yet of what an expression makes."""
    if isinstance(value, cst.Call):
        name, held = last_name(value.func), receiver(value)
        made = isinstance(held, cst.Call) and _is_empty(index, held)  # not a module's function, `steps.train(net)`
        moved = made and method_name(value) in index.knowledge.module_methods
        return moved or name[:1].isupper() or name in ("dict", "list", "set", "zeros", "ones", "defaultdict")
    if isinstance(value, cst.BinaryOperation):  # `[0.0] * classes`
        return isinstance(value.left, cst.List) and _is_empty(index, value.left)
    if isinstance(value, (cst.DictComp, cst.ListComp)):
        item = value.value if isinstance(value, cst.DictComp) else value.elt
        return not isinstance(item, (cst.Name, cst.UnaryOperation)) and _is_empty(index, item)
    if isinstance(value, cst.Dict):
        return all(isinstance(one, cst.DictElement) and _is_empty(index, one.value) for one in value.elements)
    if isinstance(value, (cst.List, cst.Tuple)):
        return all(isinstance(one, cst.Element) and _is_empty(index, one.value) for one in value.elements)
    return isinstance(value, (cst.Integer, cst.Float, cst.SimpleString, cst.Name, cst.UnaryOperation))
