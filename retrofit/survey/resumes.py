"""Find what loads a checkpoint of the script's own into the model, and how restarted rounds can pass over it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Binding, Index, Scope, Statement, dotted
from retrofit.survey.loops import called_in
from retrofit.survey.models import optimizer_statements
from retrofit.survey.order import (
    after_training_alone,
    always_leaves,
    before_training,
    comes_after,
    defines,
    leading_to,
    leads_to,
    ways_to,
)
from retrofit.survey.sites import EpochLoop, Model, Resume
from retrofit.survey.weights import is_resume, late_beginnings, of_model
from retrofit.survey.wrappers import wrapper_kind

#: Statements that restarted rounds may run as well: messages, and plain values to begin with.
_HARMLESS = re.compile(
    r"""((print|raise|\w+\.(info|warning|error))\b.*|[\w.\[\]"', ]+ = ([^()]|float\(["'][+-]?inf["']\))*|pass)\s*""",
    re.DOTALL,
)


def find_resumes(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> list[Resume]:
    """Return what loads a checkpoint into the built model before the epoch loop: `if` blocks, and calls that resume.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index = flow.index
    found: dict[Statement, list[Statement]] = {}
    training = leading_to(loops, flow)
    making = optimizer_statements(index)
    making += [index.statement(c) for c in index.calls if wrapper_kind(flow, c) and not _wraps_again(c, index)]
    making += [model.statement for model in models]
    making = [way for made in dict.fromkeys(making) for ways in ways_to(made, flow).values() for way in ways]
    averages = _averages(origins, models, flow)

    def passed_over(place: Statement, loads: str, early: bool) -> Statement | None:
        """Return what restarted rounds pass over for a load: the block that resumes, or all that is there to load.

        Args:
            early: whether it runs before the training.
        """
        ifs = [part for part in place.path if isinstance(part.node, cst.If) and part.scope is place.scope]
        ifs = [part for part in ifs if part not in training]
        before = [m for m in models if m.scope is place.scope and place.order < m.statement.order]
        block = next((part for part in ifs if is_resume(index, part, loads)), None)
        if before and (block is None or any(block in m.statement.path for m in models)):
            return None  # weights to begin with, over which the newest structure is loaded
        if block is not None or not early:
            return block
        whole = [part for part in ifs if not any(part in made.path for made in making)]
        block = next((part for part in whole if not _leaves_after(place, ifs[0], index)), None)
        plain = isinstance(place.node, cst.SimpleStatementLine) and place not in training and place not in making
        once = not any(isinstance(part.node, (cst.For, cst.While)) for part in place.path)
        return place if not whole and plain and once and (not loads or is_resume(index, place, loads)) else block

    for call in index.calls:
        places = []
        for place, loads in _called_from(_loads(call, origins, averages, flow), flow):
            if any(model.scope is index.scope_of(call) is not place.scope for model in models):
                continue  # a call of the function that builds the model, loads weights and perforates it
            around = [part for ways in ways_to(place, flow).values() for way in ways for part in way.path]
            if any(loop.statement in around for loop in loops) or after_training_alone(place, loops, flow):
                continue
            sooner = any(m.scope is place.scope and place.order < m.statement.order for m in models)
            if sooner or any(comes_after(place, m.statement, flow) for m in models):
                places.append((place, loads))
        ways = [(passed_over(place, loads, leads_to(place, training)), place) for place, loads in places]
        alone = [way for way, (_, loads) in zip(ways, places, strict=True) if way[0] is not None and not loads]
        early = [(place, loads) for place, loads in places if before_training(place, loops, flow)]
        calls = [(passed_over(place, loads, True), place) for place, loads in early if loads]
        within = [(passed_over(place, loads, True), place) for place, loads in early if not loads]
        for chosen in (alone, calls, within, [way for way in ways if way[0] is not None][:1]):
            passed = [(block, place) for block, place in chosen if block is not None]
            for block, place in passed:
                found.setdefault(block, []).append(place)
            if passed:
                break
    for place in _beside(loops, flow):
        known = any(part in found for part in place.path)
        if not known and leads_to(place, training) and any(comes_after(place, m.statement, flow) for m in models):
            around = [part for part in place.path if part.scope is place.scope and part not in training]
            found[next((part for part in around if is_resume(index, part, "load_state_dict")), place)] = [place]
    passing = _Passing(origins, loops, flow, making, {place for places in found.values() for place in places})
    sites = _sites(found, passing, flow)
    for place in late_beginnings(origins, models, loops, flow):
        if not any(part in found for part in place.path):
            sites.append(Resume(node=place.node, index=index, test="", otherwise=True))
    return sites + [site for average in averages if (site := _given(average.node, index)) is not None]


def _wraps_again(call: cst.Call, index: Index) -> bool:
    """Whether a wrapper gets what is in another one, `DDP(model.module)`, so that the model is wrapped without it."""
    return any(re.search(r"\.module\b", index.source.code(arg.value)) for arg in call.args[:1])


def _sites(found: dict[Statement, list[Statement]], passing: _Passing, flow: Flow) -> list[Resume]:
    """Return what is passed over: the calls of a function that loads, or what loads in it where it gives more values.

    Args:
        found: the blocks that load, or call a function that does, each with its loads.
    """
    index = flow.index
    over = {block: passing.over(block, places) for block, places in found.items()}
    for block in found:
        if any(site.unbound for site in over[block]) and (inner := passing.in_function(block)):
            over |= {index.statement(site.node): [site] for site in inner}
            del over[block]
    covered = [
        part
        for part in over
        if (calls := flow.callers(part.scope))
        and all(any(a in over and a.scope is not part.scope for a in index.statement(c).path) for c in calls)
    ]
    return [site for block, sites in over.items() if block not in covered for site in sites]


def _called_from(places: list[tuple[Statement, str]], flow: Flow) -> list[tuple[Statement, str]]:
    """Replace the calls that load something by those of the functions around them that are named for loading too."""
    found: dict[Statement, str] = {}
    waiting = list(places)
    for place, loads in waiting:  # which grows meanwhile
        calls = [flow.index.statement(call) for call in flow.callers(place.scope)]
        further = [call for call in calls if call not in found and call is not place]
        if loads and further and re.match(r"_*(auto_)?(load|resume|restore)(_|$)", place.scope.name):
            waiting += [(call, loads) for call in further if len(waiting) < 50]
        else:
            found.setdefault(place, loads)
    return list(found.items())


def _beside(loops: list[EpochLoop], flow: Flow) -> list[Statement]:
    """Return the statements that load a state into the optimizer or the like, themselves or by a function for that."""
    index = flow.index
    kinds = re.compile(r"\w*(optim|sched|scaler)\w*", re.IGNORECASE)
    found = []
    for call in index.calls:
        place, function = index.statement(call), flow.called(call)
        name = index.source.code(call.func).rpartition(".")[2]
        loaded = [call.func.value] if isinstance(call.func, cst.Attribute) and name == "load_state_dict" else []
        if function is not None and re.match(r"_*(auto_)?(load|resume|restore)", name):
            loaded = [arg.value for arg in call.args] if "load_state_dict" in index.source.code(function.node) else []
        ours = any(kinds.fullmatch((dotted(value) or "").rpartition(".")[2]) for value in loaded)
        alone = isinstance(place.node, cst.SimpleStatementLine) and not place.crowded
        if ours and alone and not any(loop.statement in place.path for loop in loops):
            found.append(place)
    return found


def _leaves_after(place: Statement, block: Statement, index: Index) -> bool:
    """Whether what comes after a load, in a block around it, ends its function or the program: it loads for a test."""
    inside = place.path[place.path.index(block) + 1 :]
    return any(always_leaves(part.siblings[-1], index) for part in inside)


def _averages(origins: set[Origin], models: list[Model], flow: Flow) -> set[Origin]:
    """Return the calls that make a moving average of the built model, which has its structure: `ModelEma(model)`."""
    index = flow.index
    return {
        Origin(call)
        for call in index.calls
        if re.search(r"EMA|Ema(?![a-z])|(^|_)ema(_|$)|Average", (dotted(call.func) or "").rpartition(".")[2])
        and any(
            model.scope is index.scope_of(call) and model.statement.order < index.statement(call).order
            for model in models
        )
        and any(_is(arg.value, origins, index.statement(call), flow) for arg in call.args[:1])
    }


def _given(average: cst.BaseExpression, index: Index) -> Resume | None:
    """Return the checkpoint that a moving average is made with: `ModelEma(model, resume=args.resume)`."""
    assert isinstance(average, cst.Call)
    for arg in average.args:
        if arg.keyword is not None and arg.keyword.value == "resume" and dotted(arg.value) not in (None, "None"):
            return Resume(
                node=average, index=index, test="", value=index.source.code(arg.value), anchors={"value": arg.value}
            )
    return None


def _is(value: cst.BaseExpression, origins: set[Origin], place: Statement, flow: Flow) -> bool:
    """Whether a value is one of those made at ``origins``."""
    return not origins.isdisjoint(flow.closure(set(flow.origins(value, place.scope))))


def _loads(call: cst.Call, origins: set[Origin], averages: set[Origin], flow: Flow) -> list[tuple[Statement, str]]:
    """Return where a call loads weights into the model, and where its function is called, with the code of a helper."""
    index = flow.index
    place, function = index.statement(call), flow.called(call)
    name = index.source.code(call.func).rpartition(".")[2]

    def is_model(value: cst.BaseExpression) -> bool:
        if of_model(value, origins, flow):
            return True
        while averages and isinstance(value, cst.Attribute):
            value = value.value
        return bool(averages) and _is(value, averages, place, flow)

    if name == "load_state_dict":
        if not isinstance(call.func, cst.Attribute) or not is_model(call.func.value):
            return []
        helper = "" if place.scope.parent is None else index.source.code(place.scope.node)
        return [(place, ""), *((index.statement(caller), helper) for caller in flow.callers(place.scope))]
    if not re.match(r"_*(auto_)?(load|resume|restore|restart)_", name):
        return []
    if not any(is_model(arg.value) for arg in call.args if not arg.star):
        return []
    if function is None:
        return [(place, "load_state_dict" + ("; start_epoch =" if re.search("resume|restart", name) else ""))]
    code = index.source.code(function.node)
    given = [arg.keyword.value if arg.keyword else index.source.code(arg.value) for arg in call.args]
    others = " ".join(f"{name}.load_state_dict" for name in given if re.search("optim|sched|scaler", name))
    return [(place, f"{code}\n{others}")] if "load_state_dict" in code else []


class _Passing:
    """Decides how restarted rounds pass over what loads a checkpoint, so that what it binds besides has its value.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
        making: the statements that build the model, wrap it or build its optimizer, which no round passes over.
        loading: those that load a checkpoint, which every restarted round passes over.
    """

    def __init__(
        self,
        origins: set[Origin],
        loops: list[EpochLoop],
        flow: Flow,
        making: list[Statement],
        loading: set[Statement],
    ) -> None:
        self._loading = loading
        self._training = {part.scope for part in leading_to(loops, flow) if not defines(part)}
        self._origins = origins
        self._making = making
        self._loops = loops
        self._flow = flow
        self._index = flow.index

    def over(self, block: Statement, places: list[Statement]) -> list[Resume]:
        """Return what is passed over of a block: its branches that load, or else the loads alone, or else all of it.

        Args:
            places: the statements in it that load a checkpoint into the model.
        """
        loads = self._loads(block, places)
        if sites := self._inner(block, loads):
            return sites
        ways = [self._branches(block, loads) or [self._whole(block)], self._alone(block, loads)]
        if ways[1] and any(block in made.path for made in self._making):
            return ways[1]
        return next((sites for sites in ways if sites and not any(site.unbound for site in sites)), ways[0])

    def in_function(self, block: Statement) -> list[Resume]:
        """Return what is passed over in a function that a block calls, and that gives values where it loads nothing."""
        index, flow = self._index, self._flow
        for call in index.calls:
            function = flow.called(call) if block in index.statement(call).path else None
            if function is None or not all(block in index.statement(c).path for c in flow.callers(function)):
                continue
            loads = [
                index.statement(one)
                for one in index.calls
                if index.scope_of(one) is function
                and isinstance(one.func, cst.Attribute)
                and one.func.attr.value == "load_state_dict"
            ]
            if loads and (early := self._leaving(loads[0])) is not None:
                return [early]
            outer = next((p for load in loads[:1] for p in load.path if p.scope is function), None)
            if outer is not None and isinstance(outer.node, cst.If) and all(outer in load.path for load in loads):
                sites = self.over(outer, loads)
                if all(site.test and not site.unbound for site in sites):
                    return sites
        return []

    def _leaving(self, load: Statement) -> Resume | None:
        """Return the test before a load by which its function leaves, with its values, where there is no checkpoint."""
        index = self._index
        absent = re.compile(r"\bnot\b.*(exist|is_?file|is_?dir|resume|ckpt|checkpoint|path)|\bis None\b|== *(''|\"\")")
        for part in reversed([part for part in load.path if part.scope is load.scope]):
            for early in part.preceding:
                node = early.node
                if isinstance(node, cst.If) and node.orelse is None and absent.search(index.source.code(node.test)):
                    last = index.statements_in(node.body)[-1].node
                    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return):
                        return self._tested(early, node, leaves=True)
        return None

    def _loads(self, block: Statement, places: list[Statement]) -> list[Statement]:
        """Return what loads in a block: into the model, and by its side into the optimizer or the like."""
        index = self._index
        beside = {
            index.statement(call)
            for call in index.calls
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "load_state_dict"
        }
        return [s for s in index.statements if s in places or (s in beside and block in s.path)]

    def _inner(self, block: Statement, loads: list[Statement]) -> list[Resume]:
        """Return what loads in a block that freezes layers beside it, as restarted rounds have to do as well."""
        index, freezes = self._index, re.compile(r"\.requires_grad(_\()?\b|\b_*freeze\w*\(")
        if not isinstance(block.node, cst.If) or block.node.orelse is not None:
            return []
        loading = {part for part in index.statements_in(block.node.body) for load in loads if part in load.path}
        others = [part for part in index.statements_in(block.node.body) if part not in loading]
        if not any(freezes.search(index.source.code(part.node)) for part in others):
            return []
        sites = [site for part in loading for site in self.over(part, [load for load in loads if part in load.path])]
        return [] if any(site.unbound for site in sites) else sites

    def _whole(self, block: Statement) -> Resume:
        site = Resume(node=block.node, index=self._index, test="", otherwise=True)
        site.unbound = self._unbound(block, [block.node], []) + self._unbound_members(block)
        return site

    def _branches(self, block: Statement, loads: list[Statement]) -> list[Resume]:
        """Return the branches that load, and the loads in the `else`; nothing where the rest does not go alone."""
        if not isinstance(block.node, cst.If):
            return []
        sites, passed, kept = [], [], []
        for branch in _chain(block.node):
            loading = [load for load in loads if branch.body in self._index.ancestors(load.node)]
            if isinstance(branch, cst.Else) and loading:
                for statement in self._index.statements_in(branch.body):
                    inside = [load for load in loading if statement in load.path]
                    nested = self.over(statement, inside) if inside else []
                    if any(site.unbound for site in nested) or not (inside or self._only_begins(statement)):
                        return []
                    sites += nested
                kept.append(branch.body)
            elif loading:
                assert isinstance(branch, cst.If)
                sites.append(self._tested(block, branch))
                passed.append(branch.body)
            elif all(self._only_begins(statement) for statement in self._index.statements_in(branch.body)):
                kept.append(branch.body)
            else:
                return []
        if sites:
            sites[0].unbound = self._unbound(block, passed, kept if isinstance(branch, cst.Else) else [])
        return sites

    def _tested(self, block: Statement, branch: cst.If, leaves: bool = False) -> Resume:
        site = Resume(node=block.node, index=self._index, test=self._index.source.code(branch.test), leaves=leaves)
        if isinstance(branch.test, (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda)):
            site.test = f"({site.test})" if not branch.test.lpar else site.test
        site.anchors["test"] = branch.test
        return site

    def _alone(self, block: Statement, loads: list[Statement]) -> list[Resume]:
        """Return the loads alone; nothing where the block does more with the model, or with what it reads."""
        index = self._index
        names = "|".join(map(re.escape, self._flow.names_of(self._origins, block.scope))) or "model"
        more = re.compile(rf"\.copy_\(|\.data\b|\.apply\(|\binit\b|^\s*({names}|\w*(optim|sched)\w*)\s*=.*\[['\"]")
        for statement in index.statements:
            around = any(statement in load.path for load in loads)
            if block in statement.path and not around and more.search(index.source.code(statement.node)):
                return []
        if not all(isinstance(load.node, cst.SimpleStatementLine) for load in loads):
            return []
        return [self._whole(load) for load in loads]

    def _only_begins(self, statement: Statement) -> bool:
        """Whether a statement only sets values to begin with, or tells something, and leaves the model as it is."""
        code = re.sub(r"^\s*#.*$", "", self._index.source.code(statement.node), flags=re.MULTILINE).strip()
        if statement.scope not in self._training and re.fullmatch(r"return\b[^()\n]*(#.*)?", code):
            return True  # of a function for loading alone
        if re.search(r"^\s*(raise|return)\b|\bexit\(", code, re.MULTILINE):
            return False
        if isinstance(statement.node, cst.SimpleStatementLine) and _HARMLESS.fullmatch(code.partition("  #")[0]):
            return True
        names = self._flow.names_of(self._origins, statement.scope)
        touched = "|".join([r"\w*(?:load|init|pretrain|finetune|resume)\w*", *map(re.escape, names)])
        return re.search(rf"\b({touched})\b", code) is None

    def _unbound(self, block: Statement, passed: Sequence[cst.CSTNode], kept: Sequence[cst.CSTNode]) -> list[str]:
        """Return the names that have no value where code is passed over, and are used after it.

        Args:
            block: the statement around it.
            passed: the code.
            kept: what runs instead, one of them whatever the conditions; empty where perhaps nothing does.
        """
        index, found = self._index, []
        here = [b for b in index.bindings if b.statement.scope is block.scope and "." not in b.target]
        inside = [b for b in here if block in b.statement.path and self._within(b, passed)]
        last = max((s.order for s in index.statements if block in s.path), default=block.order)
        always = isinstance(block.node, cst.SimpleStatementLine) and block.node in passed
        for name in dict.fromkeys(b.target for b in inside):
            same = [b for b in here if b.target == name]
            known = name in block.scope.parameters or self._flow.variable(name, block.scope)[0] is not block.scope
            before = [b.statement for b in same if b.statement.order < block.order]
            known = known or (bool(before) and (not always or self._has_value(name, before, last, block)))
            known = known or (bool(kept) and all(any(self._within(b, [way]) for b in same) for way in kept))
            if not known and self._used_after(name, last, block):
                found.append(name)
        return found

    def _has_value(self, name: str, before: list[Statement], last: int, block: Statement) -> bool:
        """Whether a name has a value at a block whatever the conditions, or at least where it is used after it."""
        index, flow = self._index, self._flow
        own = [part for part in block.path if part.scope is block.scope]
        if any(_gives(statement, before, index) for part in own for statement in part.preceding):
            return True
        tests = {
            index.source.code(part.node.test)
            for statement in before
            for part in statement.path
            if isinstance(part.node, cst.If) and part not in block.path
        }
        used = [
            index.statement(node)
            for node in index.parents
            if isinstance(node, cst.Name) and node.value == name and _reads(node, index)
        ]
        later = [s for s in used if s.order > last and flow.variable(name, s.scope) == flow.variable(name, block.scope)]
        around = [[p for p in s.path if isinstance(p.node, cst.If)] for s in later]
        return all(
            any(isinstance(p.node, cst.If) and index.source.code(p.node.test) in tests for p in ifs) for ifs in around
        )

    def _within(self, binding: Binding, nodes: Sequence[cst.CSTNode]) -> bool:
        around = [binding.statement.node, *self._index.ancestors(binding.statement.node)]
        return any(node in nodes for node in around)

    def _unbound_members(self, block: Statement) -> list[str]:
        """Return the attributes and items to which only a block that always runs gives a value, and that are read."""
        index, flow = self._index, self._flow
        called = {flow.called(call) for call in index.calls if index.statement(call) is block} - {None}
        ways: list[cst.CSTNode] = [
            one.node.body for one in called if one is not None and isinstance(one.node, cst.FunctionDef)
        ]
        ways = ways or _ways(block.node)
        members = [b for b in [*index.bindings, *index.items] if not b.target.isidentifier()]
        inside = [b for b in members if self._within(b, [block.node, *ways])]
        found = []
        for target in dict.fromkeys(b.target for b in inside):
            own = target.startswith("self.")
            name = target if own else re.split(r"[.\[]", target)[0]
            if called and not own and not any(b.statement is block for b in inside if b.target == target):
                continue
            variable = flow.variable(name, block.scope)
            same = [b for b in members if b.target == target and flow.variable(name, b.statement.scope) == variable]
            others = [b for b in same if b not in inside and not self._in_training(b.statement)]
            here = [block.node] if called and not own else ways
            always = bool(here) and all(any(self._only_under(b, way) for b in same) for way in here)
            if always and not others and not self._has(target, block) and self._read(target, variable, block):
                found.append(target)
        return found

    def _only_under(self, binding: Binding, way: cst.CSTNode) -> bool:
        """Whether a binding always takes place where a block runs, or a statement."""
        parent = self._index.parents[binding.statement.node]
        return way in (parent, binding.statement.node)

    def _in_training(self, statement: Statement) -> bool:
        """Whether a statement runs in an epoch loop."""
        return any(
            loop.statement in statement.path or statement.scope in called_in(self._index, self._flow, loop.statement)
            for loop in self._loops
        )

    def _has(self, target: str, block: Statement) -> bool:
        """Whether something else than an assignment may give a member its value, as far as that shows."""
        index, flow = self._index, self._flow
        owner, _, name = target.rpartition(".")
        if "[" in target:
            owner, _, key = target.partition("[")
            made = [source.value for source in flow.sources(flow.variable(owner, block.scope))]
            return not made or not all(
                isinstance(value, cst.Dict)
                and all(isinstance(e, cst.DictElement) and index.source.code(e.key) != key[:-1] for e in value.elements)
                for value in made
            )
        holder = block.scope.enclosing_class
        if owner == "self" and holder is not None:
            lineage = flow.lineage(holder)
            last = lineage[-1].node
            code = "\n".join(index.source.code(one.node) for one in lineage)
            foreign = isinstance(last, cst.ClassDef) and any(dotted(b.value) != "object" for b in last.bases)
            return foreign or any(name in c.names for c in lineage) or "setattr(" in code or "__dict__" in code
        word = re.escape(name)
        told = rf"""(?<!\w\[)['"](--)?{word.replace("_", "[-_]")}['"](?!\s*:\s*[\w.]*\b{word}\b)"""
        option = re.compile(rf"{told}|[(,]\s*{word}\s*=")  # not what reads it, or saves it
        return any(option.search(file.source.text) for file in index.files)

    def _read(self, target: str, variable: tuple[Scope, str], block: Statement) -> bool:
        """Whether a member is read anywhere but in a block."""
        index, flow = self._index, self._flow
        for node, parent in index.parents.items():
            if not isinstance(node, (cst.Attribute, cst.Subscript)) or isinstance(parent, cst.AssignTarget):
                continue
            if index.source.code(node).strip() == target and block not in index.statement(node).path:
                root = target if target.startswith("self.") else variable[1]
                if self._is_given(flow.variable(root, index.scope_of(node)), variable, {variable}):
                    return True
        return False

    def _is_given(self, name: tuple[Scope, str], variable: tuple[Scope, str], seen: set[tuple[Scope, str]]) -> bool:
        """Whether a name is a variable, or a parameter by which calls pass it on."""
        if name == variable or name in seen or name[1] not in name[0].parameters:
            return name == variable
        given = [(source.value, source.scope) for source in self._flow.sources(name)]
        names = [self._flow.variable(value.value, scope) for value, scope in given if isinstance(value, cst.Name)]
        return any(self._is_given(one, variable, seen | {name}) for one in names)

    def _used_after(self, name: str, order: int, block: Statement) -> bool:
        """Whether a name is used after a block before it is bound anew on every way.

        Args:
            order: that of the last statement in the block.
        """
        index, flow = self._index, self._flow
        places = [
            index.statement(n)
            for n in index.parents
            if isinstance(n, cst.Name) and n.value == name and _reads(n, index)
        ]
        places += [b.statement for b in index.bindings if b.target == name]
        settled: list[Statement] = []
        for place in sorted(dict.fromkeys(places), key=lambda statement: statement.order):
            if place.order <= order or flow.variable(name, place.scope) != flow.variable(name, block.scope):
                continue
            if place in self._loading or any(part in place.path for part in settled) or _instead(place, block):
                continue
            bound = [b for b in index.bindings if b.target == name and b.statement is place]
            value = bound[0].value if bound else None
            if not bound or (value is not None and re.search(rf"\b{name}\b", index.source.code(value))):
                return True
            around = [p for p in place.path if isinstance(p.node, cst.If) and p not in block.path]
            if not around:
                return False
            settled.append(around[0])
        return False


def _chain(node: cst.If) -> Iterator[cst.If | cst.Else]:
    """Yield an `if`, its `elif`s and its `else`."""
    branch: cst.If | cst.Else | None = node
    while branch is not None:
        yield branch
        branch = branch.orelse if isinstance(branch, cst.If) else None


def _gives(statement: Statement, before: list[Statement], index: Index) -> bool:
    """Whether a statement is one of some, or always runs one of them, as far as no loop or exception passes it over."""
    if statement in before:
        return True
    if isinstance(statement.node, cst.If):
        branches = list(_chain(statement.node))
        inside = [index.statements_in(branch.body) for branch in branches]
        return isinstance(branches[-1], cst.Else) and all(
            always_leaves(block[-1], index) or any(_gives(one, before, index) for one in block) for block in inside
        )
    parts = {part for one in before for part in one.path if part.parent is statement}
    return not defines(statement) and any(_gives(part, before, index) for part in parts)


def _ways(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the blocks of which a statement runs just one, itself where it has no branches."""
    branches = list(_chain(node)) if isinstance(node, cst.If) else []
    if not branches:
        return [node]
    return [branch.body for branch in branches] if isinstance(branches[-1], cst.Else) else []


def _instead(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function are in different branches of an `if`."""
    one, other = next(((a, b) for a, b in zip(first.path, second.path, strict=False) if a is not b), (first, first))
    choice = one.parent is not None and isinstance(one.parent.node, cst.If)
    return choice and first.scope is second.scope and one.siblings is not other.siblings


def _reads(name: cst.Name, index: Index) -> bool:
    """Whether a name in the tree is the variable of that name, not an attribute's or an argument's."""
    parent = index.parents[name]
    if isinstance(parent, cst.Attribute):
        return parent.value is name
    return not isinstance(parent, (cst.Param, cst.AssignTarget)) and not (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )
