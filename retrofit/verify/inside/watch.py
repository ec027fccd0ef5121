"""Note what a training does: steps, scores, learning rates, structure, errors. Nothing here changes what it does."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import os
import signal
import sys
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from .events import Events, in_helper

#: Running statistics of the batches that a rank has seen itself: they may differ between ranks.
_RANKS_OWN = ("running_mean", "running_var")


class _State:
    """What is known of the training in this process."""

    def __init__(self) -> None:
        self.net: Any = None
        self.steps = 0
        self.waits = False  # for the gradients of layers that had none at the first step
        self.trained: dict[int, Any] = {}  # optimizers that have stepped since the model got its structure
        self.handovers = 0
        self.in_helper = False
        self.in_tracker = False
        self.scheduler_depth = 0
        self.stepped_schedulers: dict[str, Any] = {}

    def restructured(self, net: Any) -> None:
        self.net = net
        self.trained = {}
        self.stepped_schedulers = {}


_state = _State()


def errors(events: Events) -> None:
    """Note exceptions that end the process and changes of its working folder, and show where it is when it hangs.

    Args:
        events: where to note them.
    """
    import faulthandler

    def start() -> None:
        initial = os.environ.get("PAI_PERFORATE_MODEL_PARALLEL") == "1" or "--perforate_model_parallel" in sys.argv
        events.write("start", parent=os.getppid(), initializing=initial)
        folder = Path(os.environ["RETROFIT_VERIFY"]).parent
        stacks = open(folder / f"stack-{os.getpid()}", "w")  # noqa: SIM115 - open to the end
        faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)

    def moved(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.chdir" and (place := events.place(sys._getframe(1))):
            events.write("moved", place=place)

    start()
    os.register_at_fork(after_in_child=start)
    sys.addaudithook(moved)
    hook = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        places = [
            f"{name}:{line}"
            for frame, line in traceback.walk_tb(trace)
            if (name := events.shown(frame.f_code.co_filename))
        ]
        own = [place for place in places if not in_helper(place)]
        events.write(
            "error",
            error=kind.__name__,
            message=str(error)[:4000],
            place=own[-1] if own else (places or [""])[-1],
            traceback="".join(traceback.format_exception(kind, error, trace))[-6000:],
        )
        hook(kind, error, trace)

    sys.excepthook = note


def signs_of_life(done: Any, events: Events) -> None:
    """Show that training goes on at each batch and step.

    Args:
        done: what the rehearsal counts of them.
        events: where to show it.
    """
    note = done.note

    def note_and_show() -> None:
        note()
        events.alive()

    done.note = note_and_show


def debugger(bdb: Any, events: Events) -> None:
    """Note that a debugger was entered: perforatedai does so where it is not sure, and nobody is there to answer."""
    enter = bdb.Bdb.set_trace

    @functools.wraps(enter)
    def set_trace(self: Any, *args: Any, **kwargs: Any) -> Any:
        events.write("debugger", place=events.place())
        return enter(self, *args, **kwargs)

    bdb.Bdb.set_trace = set_trace


def torch_library(torch: Any, events: Events) -> None:
    """Watch optimizers' steps, schedulers' steps and DistributedDataParallel.

    Args:
        torch: the imported torch.
        events: where to note what is seen.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(optimizer: Any, *_: Any) -> None:
        _state.steps += 1
        if _state.steps == 1 and _state.net is not None:
            own = (p for layer in _layers(_state.net) for p in layer.main_module.parameters())
            _state.waits = any(p.requires_grad and p.grad is None for p in own)
        _state.trained[id(optimizer)] = optimizer
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        events.write("step", number=_state.steps, digest=_digest(parameters), rates=_rates(optimizer))

    register_optimizer_step_post_hook(stepped)
    for scheduler in vars(torch.optim.lr_scheduler).values():
        if isinstance(scheduler, type) and "step" in vars(scheduler):
            _watch_scheduler(scheduler, events)
    _watch_wrapper(torch.nn.parallel.DistributedDataParallel, events)


def _digest(tensors: list[Any]) -> int:
    """A checksum of tensors' bits. crc32 is enough to see a difference, and takes a tenth of a SHA-256's time."""
    digest = 0
    for tensor in tensors:
        array = tensor.detach().cpu().contiguous().flatten()
        if array.numel():
            digest = zlib.crc32(memoryview(array.view(_bytes()).numpy()), digest)
    return digest


def _bytes() -> Any:
    return sys.modules["torch"].uint8


def _rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]


def _watch_scheduler(scheduler: Any, events: Events) -> None:
    step, seen = scheduler.step, set()

    @functools.wraps(step)
    def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        # The first step is made by the scheduler itself, while it is built.
        if _state.scheduler_depth == 0 and caller.f_code.co_name not in ("_initial_step", "__init__"):
            owned = self is _tracker_value("scheduler_instance")
            place = "" if _state.in_tracker else events.place(caller)
            if (owned, place) not in seen:
                seen.add((owned, place))
                events.write("scheduler-step", scheduler=type(self).__name__, owned=owned, place=place)
            if not _state.in_tracker:
                _state.stepped_schedulers[place] = self
        _state.scheduler_depth += 1
        try:
            return step(self, *args, **kwargs)
        finally:
            _state.scheduler_depth -= 1

    scheduler.step = stepping


def _watch_wrapper(wrapper: Any, events: Events) -> None:
    make = wrapper.__init__

    @functools.wraps(make)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        names = [name for name, _ in module.named_buffers() if name.rpartition(".")[2] == "tracker_string"]
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", []))
        place = events.place(sys._getframe(1))
        make(self, module, *args, **kwargs)
        if _layers(module):
            events.write(
                "wrapper",
                place=place,
                waits_for=[] if self.find_unused_parameters or self.static_graph else _idle(self, module),
                broadcasts_records=bool(self.broadcast_buffers and not ignored.issuperset(names)),
            )

    wrapper.__init__ = __init__


def _layers(module: Any) -> list[Any]:
    """The layers that can have dendrites, which pai_distributed leaves out of `modules()`."""
    found, waiting = [], [module]
    while waiting:
        part = waiting.pop()
        found += [part] * (type(part).__name__ == "PAINeuronModule")
        waiting += filter(None, part._modules.values())
    return found


def _idle(wrapper: Any, module: Any) -> list[str]:
    """The parameters of dendrites that a wrapper waits for and no pass uses, without Perforated Backpropagation.

    The helper lets no walk through the model come to them, so they are looked for where modules keep them.
    """
    parts = {"parent_module", "candidate_to_top", "dendrites_to_candidates"}
    waited = {id(parameter) for parameter in wrapper._build_params_for_reducer()[0]}
    held = [one for layer in _layers(module) for one in _everything(layer, getattr(layer, "name", ""))]
    return [name for name, one in held if id(one) in waited and not parts.isdisjoint(name.split("."))]


def _everything(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every parameter in a module by its path, whatever a walk through it would come to."""
    yield from ((f"{path}.{name}", one) for name, one in module._parameters.items() if one is not None)
    for name, child in module._modules.items():
        if child is not None:
            yield from _everything(child, f"{path}.{name}")


def _configuration() -> Any:
    library: Any = sys.modules["perforatedai.globals_perforatedai"]
    return library.pc


def _tracker_value(name: str) -> Any:
    library: Any = sys.modules.get("perforatedai.globals_perforatedai")
    return getattr(getattr(library, "pai_tracker", None), "member_vars", {}).get(name)


class _Schedule:
    """What a scheduler does to learning rates, worked out on a copy that nobody else steps.

    A project's own scheduler may refuse to be copied or stepped so; then nothing is known of it.
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler: Any = None
        with contextlib.suppress(Exception):
            parameters = [p for group in scheduler.optimizer.param_groups for p in group["params"]]
            self._scheduler = copy.deepcopy(scheduler, {id(parameter): parameter for parameter in parameters})

    def rates(self, score: Any, step: bool) -> list[float] | None:
        """The learning rates now; after one more step, where ``step`` says so; None where that is not known."""
        _state.scheduler_depth += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the copy's optimizer never steps
                if step:
                    kinds = {kind.__name__ for kind in type(self._scheduler).__mro__}
                    self._scheduler.step(score) if "ReduceLROnPlateau" in kinds else self._scheduler.step()
                return _rates(self._scheduler.optimizer)
        except Exception:
            self._scheduler = None
            return None
        finally:
            _state.scheduler_depth -= 1


def _choose_mode(tracker: Any, held: bool) -> None:
    """Let the library take a score as in an ordinary epoch, where its capacity test would restructure at once.

    The helper's rehearsal does so too, but a script may hand its scores to the library itself. Each time anew: a
    checkpoint of an epoch that was held brings the other mode back.
    """
    configuration = _configuration()
    if configuration.get_testing_dendrite_capacity():
        every_time, history = configuration.DOING_SWITCH_EVERY_TIME, configuration.DOING_HISTORY
        tracker.member_vars["switch_mode"] = history if held else every_time


def tracker(module: Any, plain_scores: int, events: Events) -> None:
    """Watch perforatedai's tracker: the scores that it gets, what it answers, and what it does to learning rates.

    Args:
        module: the imported perforatedai.tracker_perforatedai.
        plain_scores: how many go by before the capacity test may restructure the model.
        events: where to note what is seen.
    """
    kind = module.PAINeuronModuleTracker
    add, setup, save = kind.add_validation_score, kind.setup_optimizer, kind.save_tracker_settings
    calls = held = 0
    schedule: Any = None

    @functools.wraps(add)
    def add_validation_score(self: Any, accuracy: Any, net: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls, held
        calls, held = calls + 1, held + 1
        # Of what the helper hands over, the score of each rank is noted where the script gives it to the helper.
        if sys._getframe(1).f_code.co_name != "_pai_hand_over":
            _note_handover(accuracy, events)
        optimizer = _tracker_value("optimizer_instance")
        _choose_mode(self, held <= plain_scores)
        outer, _state.in_tracker = _state.in_tracker, True
        try:
            answer = add(self, accuracy, net, *args, **kwargs)
        finally:
            _state.in_tracker = outer
        net, restructured, complete = answer
        expected = None
        # In one process the library searches for the best learning rate after a restructuring, by its own rates.
        if schedule is not None and not restructured and not complete and not _configuration().get_find_best_lr():
            # The tracker does not step at the first score after the scheduler was made.
            expected = schedule.rates(_number(accuracy), calls > 1)
        events.write(
            "score",
            score=_number(accuracy),
            restructured=bool(restructured),
            complete=bool(complete),
            rates=_rates(optimizer) if optimizer is not None else [],
            expected=expected,
        )
        events.alive()
        if restructured or complete:
            _state.restructured(net)
        if complete:
            _load_final_model(net, events)
        return answer

    @functools.wraps(setup)
    def setup_optimizer(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls, schedule
        _state.trained = {}
        made = setup(self, *args, **kwargs)
        optimizer, scheduler = made if isinstance(made, tuple) else (made, None)
        calls, schedule = 0, None if scheduler is None else _Schedule(scheduler)
        events.write(
            "optimizer",
            optimizer=type(optimizer).__name__,
            scheduler="" if scheduler is None else type(scheduler).__name__,
            rates=_rates(optimizer),
            place=events.place(sys._getframe(1)),
        )
        return made

    @functools.wraps(save)
    def save_tracker_settings(self: Any, *args: Any, **kwargs: Any) -> Any:
        saved = save(self, *args, **kwargs)
        events.write("initialized", steps=_state.steps, waits=_state.waits)
        return saved

    kind.add_validation_score = add_validation_score
    kind.setup_optimizer = setup_optimizer
    kind.save_tracker_settings = save_tracker_settings


def library(module: Any, events: Events) -> None:
    """Watch which model gets dendrites, and whether what is loaded into it is what the file has.

    Args:
        module: the imported perforatedai.utils_perforatedai.
        events: where to note what is seen.
    """
    perforate, load = module.perforate_model, module.load_system

    @functools.wraps(perforate)
    def perforate_model(*args: Any, **kwargs: Any) -> Any:
        net = perforate(*args, **kwargs)
        _state.restructured(net)
        events.write("perforated", layers=len(_layers(net)), place=events.place(sys._getframe(1)))
        events.alive()
        return net

    @functools.wraps(load)
    def load_system(net: Any, folder: str, name: str, *args: Any, **kwargs: Any) -> Any:
        loaded = load(net, folder, name, *args, **kwargs)
        _state.restructured(loaded)
        events.write(
            "loaded",
            name=name,
            training=not _state.in_tracker,
            different=_differences(loaded, os.path.join(folder, f"{name}.pt")),
        )
        events.alive()
        return loaded

    module.perforate_model, module.load_system = perforate_model, load_system


def helper(module: Any, events: Events) -> None:
    """Watch the score that each rank hands over by the helper's functions.

    Args:
        module: the imported pai_distributed.
        events: where to note what is seen.
    """
    for name in ("report_validation_score", "add_validation_score"):
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, _watched_handover(function, events))


def _watched_handover(function: Any, events: Events) -> Any:
    @functools.wraps(function)
    def hand_over(score: Any, *args: Any, **kwargs: Any) -> Any:
        if _state.in_helper:  # one of the two calls the other
            return function(score, *args, **kwargs)
        _note_handover(score, events)
        _state.in_helper = True
        try:
            return function(score, *args, **kwargs)
        finally:
            _state.in_helper = False

    return hand_over


def _note_handover(score: Any, events: Events) -> None:
    """Note the score of this rank, and the model and the optimizers as they are when training has done its part."""
    _state.handovers += 1
    facts: dict[str, Any] = {}
    if _state.net is not None:
        held = {id(p) for o in _state.trained.values() for group in o.param_groups for p in group["params"]}
        own = dict(_state.net.named_parameters())
        facts = {
            # With gradients accumulated over more batches than an epoch has here no optimizer has stepped yet.
            "left_out": [name for name, p in own.items() if held and p.requires_grad and id(p) not in held],
            "parameters": _digest(list(own.values())),
            "buffers": {
                name: _digest([buffer])
                for name, buffer in _state.net.named_buffers()
                if name.rpartition(".")[2] != "tracker_string" and not _is_ranks_own(name)
            },
        }
    facts["idle_schedulers"] = [
        place
        for place, scheduler in _state.stepped_schedulers.items()
        if _state.trained and id(scheduler.optimizer) not in _state.trained
    ]
    events.write(
        "handover", number=_state.handovers, score=_number(score), place=events.place(), steps=_state.steps, **facts
    )


def _is_ranks_own(name: str) -> bool:
    """Is this buffer a running statistic of a norm that is not synchronised between ranks?"""
    owner, _, buffer = name.rpartition(".")
    return buffer in _RANKS_OWN and "Sync" not in type(_state.net.get_submodule(owner)).__name__


def _number(score: Any) -> float | str | None:
    """The score as JSON has it: a number, or its text where it is none or not finite."""
    if score is None:
        return None
    try:
        number = float(score.item() if hasattr(score, "item") else score)
    except (TypeError, ValueError, RuntimeError):
        return repr(score)[:80]
    return number if math.isfinite(number) else str(number)


def _differences(net: Any, path: str) -> list[str]:
    """The names of tensors that the model has and that are other than in the file it was loaded from."""
    import safetensors.torch

    different = []
    for name, tensor in safetensors.torch.load_file(path).items():
        own = _held(net, name)
        same = own is not None and own.shape == tensor.shape and _digest([own]) == _digest([tensor])
        if not same and name.rpartition(".")[2] not in ("tracker_string", "this_node_index"):
            different.append(name)
    return different[:20]


def _held(module: Any, name: str) -> Any:
    """The tensor that the library saves by a name, also where pai_distributed hides it or names it otherwise."""
    *path, last = name.split(".")
    for part in path:
        module = module._modules.get(part, vars(module).get(part))
        if module is None:
            return None
    return module._parameters.get(last, module._buffers.get(last))


def _load_final_model(net: Any, events: Events) -> None:
    """Load the best model, as a user does afterwards; at the end of a real run the library has done so itself."""
    if rank_of_files() != 0:
        return
    library: Any = sys.modules["perforatedai.utils_perforatedai"]
    folder = _configuration().get_save_name()
    device = next(net.parameters()).device
    library.load_system(net, folder, "best_model", switch_call=True).to(device)  # noted by its watcher


def rank_of_files() -> int:
    """The rank by which perforatedai decides who writes files."""
    return int(os.environ.get("RANK", "0"))


def stop_after_steps(steps: int, events: Events) -> None:
    """Leave after some steps of optimizers: all that is asked is whether the script itself comes so far here."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def leave(*_: Any) -> None:
        if _state.steps >= steps:
            events.write("runs")
            os._exit(0)

    register_optimizer_step_post_hook(leave)
