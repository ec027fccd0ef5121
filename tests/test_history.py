"""What is on record of the library's releases, and that it is so."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import pytest

from retrofit.history import Entry, load_history
from retrofit.rules import load_recipe
from retrofit.rules_folder import proven_versions, rules_folder

HISTORY = load_history(rules_folder() / "perforatedai" / "history")
GLOBALS = "perforatedai.globals_perforatedai"
#: A module of the library that asks for torchvision, which the others do without.
OPTIONAL = "perforatedai.library_perforatedai"


def test_recipe_and_check_have_the_same_history() -> None:
    assert load_recipe(rules_folder() / "perforatedai").history == HISTORY
    assert load_recipe(rules_folder() / "ddp").history == HISTORY
    assert HISTORY.latest == proven_versions()["perforatedai"][-1]


@pytest.mark.parametrize("kind", ["names", "settings", "layers"])
def test_successors_are_there(kind: str) -> None:
    entries: Mapping[str, Entry] = getattr(HISTORY, kind)
    for entry in entries.values():
        assert entry.name not in HISTORY.modules
        if entry.successor:
            assert not HISTORY.has(entry)
            assert HISTORY.has(entries[entry.successor]), entry.name
        else:
            assert not entry.one_to_one, entry.name


def test_arguments_and_releases_fit() -> None:
    for entry in [*HISTORY.names.values(), *HISTORY.layers.values()]:
        assert {name.lstrip("*") for name in entry.takes or ()} >= set(entry.added), entry.name
        assert {*entry.added.values(), *entry.dropped.values()} <= {*HISTORY.releases}, entry.name


def test_what_became_of_a_name() -> None:
    old = HISTORY.entry("perforatedai.utils_perforatedai.initialize_pai")
    assert old is not None
    assert [HISTORY.has(old, release) for release in ("3.1.4", "3.2.0")] == [True, False]
    assert HISTORY.next_after(old.until) == "3.2.0"
    assert old.successor == "perforatedai.utils_perforatedai.perforate_model"
    assert old.replaced()
    assert HISTORY.takes(old)[:3] == ["model", "doing_pai", "save_name"]


def test_what_became_of_a_setting() -> None:
    assert HISTORY.method(f"{GLOBALS}.pc.append_modules_to_convert") == ("append_", "modules_to_convert")
    old = HISTORY.entry(f"{GLOBALS}.pc.set_modules_to_convert")
    assert old is not None
    assert old.successor == "modules_to_perforate"
    assert [old.replaced(word) for word in HISTORY.words] == [False, True, False]
    assert HISTORY.method(f"{GLOBALS}.pc.get_run_config_path") is None  # a method of another kind
    assert HISTORY.method(f"{GLOBALS}.pai_tracker.set_optimizer") is None


def test_arguments_of_a_release() -> None:
    setup = HISTORY.names[f"{GLOBALS}.pai_tracker.setup_optimizer"]
    assert HISTORY.takes(setup) == ["net", "opt_args", "sched_args", "parameters"]
    assert HISTORY.takes(setup, "3.0.5") == ["net", "opt_args", "sched_args"]


def test_a_release_before_a_gap() -> None:
    entry = HISTORY.names["perforatedai.utils_perforatedai.from_hf_pretrained"]
    have = [HISTORY.has(entry, release) for release in ("3.0.9", "3.1.0", "3.1.1", "3.2.1")]
    assert have == [False, True, False, True]


def _public(module: ModuleType) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("perforatedai")
    }


def _takes(value: Any) -> list[str]:
    marks: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(value).parameters.values()
    return [f"{marks.get(one.kind, '')}{one.name}" for one in parameters if one.name != "self"]


@pytest.mark.real
def test_it_is_what_the_installed_release_has() -> None:
    release = metadata.version(HISTORY.package)
    if release not in HISTORY.releases:
        pytest.skip(f"{release} is not on record")
    there = {full: entry for full, entry in HISTORY.names.items() if HISTORY.has(entry, release)}
    library = import_module(GLOBALS)
    tracker = import_module("perforatedai.tracker_perforatedai").PAINeuronModuleTracker
    neuron = import_module("perforatedai.modules_perforatedai").PAINeuronModule
    for full, entry in there.items():
        holder, _, name = full.rpartition(".")
        if holder == OPTIONAL:
            continue
        value = getattr(_held(library, tracker, holder), name)
        if entry.takes is not None:
            takes = HISTORY.takes(entry, release)
            assert {*_takes(value)} == {*takes}, full
            assert entry.dropped or _takes(value) == takes, full
    for module in {full.rpartition(".")[0] for full in there} - {OPTIONAL, f"{GLOBALS}.pc", f"{GLOBALS}.pai_tracker"}:
        unknown = {f"{module}.{name}" for name in _public(import_module(module))} - there.keys()
        assert unknown <= {f"{GLOBALS}.PAIConfig"} | {full for full in unknown if not _own(full)}
    settings = {name for name, entry in HISTORY.settings.items() if HISTORY.has(entry, release)}
    assert {name.removeprefix("set_") for name in dir(library.pc) if name.startswith("set_")} == settings
    for name, entry in HISTORY.layers.items():
        assert hasattr(neuron, name) == HISTORY.has(entry, release)


def _held(library: ModuleType, tracker: type, holder: str) -> object:
    objects = {f"{GLOBALS}.pc": library.pc, f"{GLOBALS}.pai_tracker": tracker}
    return objects[holder] if holder in objects else import_module(holder)


def _own(full: str) -> bool:
    """Whether a module makes a name itself, and has not only imported it."""
    module, _, name = full.rpartition(".")
    return bool(getattr(import_module(module), name).__module__ == module)


@pytest.mark.real
def test_settings_that_do_not_exist_are_taken() -> None:
    pc, release = import_module(GLOBALS).pc, metadata.version(HISTORY.package)
    for word in HISTORY.words:
        since = HISTORY.taken.get(word, "")
        if since and HISTORY.releases.index(release) >= HISTORY.releases.index(since):
            assert getattr(pc, f"{word}no_such_setting")(1) is None
        else:
            with pytest.raises(AttributeError):
                getattr(pc, f"{word}no_such_setting")
