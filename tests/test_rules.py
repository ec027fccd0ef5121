"""The rules as data: what ships, how a broken one is refused, and what an extra folder may do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from jinja2 import Environment

from retrofit.cli import main
from retrofit.edits import KINDS
from retrofit.errors import UserError
from retrofit.evaluate import Evaluator, Outcome
from retrofit.habits.kinds import KINDS as HABITS
from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.rules import Recipe, Rule, load_recipe
from retrofit.survey.script import Choices, survey
from tests.conftest import SCRIPT
from tests.helpers import RECIPE_FOLDER, code, plan_of, recipe, refusal_of, source_of, survey_of

RULES = recipe().rules
SITES = {
    "script", "wrapper", "model", "optimizer", "rebuilding", "scheduler", "step", "backward", "score", "parser",
    "framework", "detour", "local-rank", "resume", "kept-score", "budget", "decay", "overrun", "rate-end", "assertion",
    "stale-load", "module-count", "new-folder", "resumption", "block", "epoch-loop", "edited-file", "unnamed-model",
    "follower", "minimum", "stop", "trial", "planned-count", "earlier-score", "early-end",
}  # fmt: skip

#: Rules about what stands beside the script; they only explain it.
EXPLAINING = {"PAI014"}

#: A rule that is valid and finds something in `SCRIPT`.
VALID = code("""
    code = "TST001"
    name = "say"
    title = "Say it"
    site = "backward"
    when = "not site.just_preceded_by('print')"
    edit = "insert-before"
    template = "print({{ site.model }})"
    why = "Because."
    source = "tests"
""")


def each_rule() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])


def folder_with(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def outcome_of(text: str, rules: Recipe) -> Outcome:
    script = survey(source_of(text), Choices(module_functions=rules.module_functions))
    return Evaluator(rules, Options().for_rules(), {"helper_source": ""}).outcome(script)


# What ships


def test_every_file_is_a_rule() -> None:
    names = [path.stem for path in RECIPE_FOLDER.glob("*.toml") if path.name != "recipe.toml"]
    assert sorted(names) == sorted(f"{rule.code}-{rule.name}" for rule in RULES)


def test_codes_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))


@each_rule()
def test_rule_says_what_why_and_from_where(rule: Rule) -> None:
    assert re.fullmatch(r"PAI\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    for text in (rule.title, rule.why, rule.source):
        assert text.strip()
    assert not rule.title.endswith(".")


@each_rule()
def test_rule_does_something(rule: Rule) -> None:
    assert rule.changes or rule.asks or rule.notes or rule.code in EXPLAINING


@each_rule()
def test_sites_and_edits_of_a_rule_are_known(rule: Rule) -> None:
    for site in (rule.site, *(change.site for change in rule.changes)):
        assert site in SITES | {""} or site.startswith("call:") or (rule.stage != "" and site in HABITS)
    for change in rule.changes:
        assert re.sub(r"\{\{.*?\}\}", "before", change.kind) in KINDS


@each_rule()
def test_templates_and_conditions_are_jinja(rule: Rule) -> None:
    environment = Environment()
    environment.filters["repr"] = repr
    for template in (*(change.template for change in rule.changes), *(r.message for r in (*rule.asks, *rule.notes))):
        environment.from_string(template)
    remarks = [remark.when for remark in (*rule.asks, *rule.notes)]
    for condition in (rule.when, *(change.when for change in rule.changes), *remarks):
        environment.compile_expression(condition)


@each_rule()
def test_removal_needs_no_template_and_everything_else_does(rule: Rule) -> None:
    for change in rule.changes:
        assert bool(change.template.strip()) is (change.kind not in ("remove", "take-out"))


@each_rule()
def test_guard_keeps_what_it_guards(rule: Rule) -> None:
    for change in rule.changes:
        assert ("{{ original }}" in change.template) is (change.kind == "guard")


@each_rule()
def test_rule_command_explains_it(rule: Rule) -> None:
    result = CliRunner().invoke(main, ["rule", rule.code])
    assert result.exit_code == 0
    shown = " ".join(result.output.split())
    for text in (rule.code, rule.title, rule.source, rule.why):
        assert " ".join(text.split()) in shown


def test_rule_command_lists_every_rule() -> None:
    result = CliRunner().invoke(main, ["rule"])
    assert result.exit_code == 0
    for rule in RULES:
        assert rule.code in result.output
        assert rule.title in result.output


def test_unknown_code_is_one_line() -> None:
    result = CliRunner().invoke(main, ["rule", "PAI999"])
    assert result.exit_code == 2
    assert "PAI999" in result.output


def test_files_that_are_put_beside_the_script_are_there() -> None:
    for output in recipe().outputs:
        assert (RECIPE_FOLDER / output.template).is_file()


# What the rules say of scripts


def test_recipe_edits_a_script_once() -> None:
    first = outcome_of(SCRIPT, recipe())
    codes = {edit.code for edit in first.edits}
    expected = {
        "PAI001",
        "PAI002",
        "PAI003",
        "PAI004",
        "PAI005",
        "PAI006",
        "PAI007",
        "PAI009",
        "PAI010",
        "PAI011",
        "PAI012",
    }
    assert codes == expected
    assert first.questions == []


def test_edits_stand_in_the_order_of_their_rules() -> None:
    codes = [edit.code for edit in outcome_of(SCRIPT, recipe()).edits]
    assert codes == sorted(codes)


@pytest.mark.parametrize("number", range(len(RULES)), ids=[rule.code for rule in RULES])
def test_rule_has_nothing_to_change_in_a_rewritten_script(tmp_path: Path, number: int) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    text = make_plan(path, "train.py", recipe(), Options()).files[0].after.decode()
    again = outcome_of(text, recipe())
    assert [edit.text for edit in again.edits if edit.code == RULES[number].code] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = 1\n", id="nothing"),
        pytest.param("import torch\nmodel = torch.nn.Linear(1, 1)\n", id="a model"),
        pytest.param("for epoch in range(3):\n    for x in y:\n        loss.backward()\n", id="a loop"),
        pytest.param("def add_validation_score(a):\n    pass\n", id="a function of a library's name"),
    ],
)
def test_script_without_a_wrapper_is_only_asked_about(text: str) -> None:
    outcome = outcome_of(text, recipe())
    assert [problem.code for problem in outcome.questions] == ["PAI101"]


def test_question_is_one_line_with_its_place() -> None:
    text = SCRIPT.replace("if acc > best_acc", "if 0").replace("acc = validate(model, loader)", "pass")
    (problem,) = outcome_of(text, recipe()).questions
    assert re.fullmatch(r"train\.py:\d+:\d+: PAI105 [^\n]*--metric[^\n]*", str(problem))


# Rules of one's own


def test_extra_folder_adds_a_rule(tmp_path: Path) -> None:
    found = load_recipe(RECIPE_FOLDER, folder_with(tmp_path, TST001=VALID))
    assert [rule.code for rule in found.rules] == [*(rule.code for rule in RULES), "TST001"]
    assert found.imports == recipe().imports


def test_extra_folder_replaces_a_rule_with_its_code(tmp_path: Path) -> None:
    found = load_recipe(RECIPE_FOLDER, folder_with(tmp_path, own=VALID.replace("TST001", "PAI006")))
    assert [rule.code for rule in found.rules] == [rule.code for rule in RULES]
    assert next(rule.name for rule in found.rules if rule.code == "PAI006") == "say"


def test_own_rule_edits_a_script_once(tmp_path: Path) -> None:
    rules = load_recipe(RECIPE_FOLDER, folder_with(tmp_path, TST001=VALID))
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    plain = make_plan(script, "train.py", recipe(), Options()).files[0].after.decode()
    after = make_plan(script, "train.py", rules, Options()).files[0].after.decode()
    assert after == plain.replace(
        "            loss.backward()", "            print(model)\n            loss.backward()"
    )
    assert outcome_of(after, rules).edits == []


def test_two_rules_of_one_code_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"second.toml: RF007 has the code TST001, as first.toml has"):
        load_recipe(RECIPE_FOLDER, folder_with(tmp_path, first=VALID, second=VALID))


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="RF007 is no folder"):
        load_recipe(RECIPE_FOLDER, tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("code = \n", "no valid TOML", id="broken TOML"),
        pytest.param("code = 'é\n", "no valid TOML", id="string not closed"),
        pytest.param(VALID + "colour = 'red'\n", "colour", id="unknown key"),
        pytest.param(VALID.replace("title =", "titel ="), "titel", id="misspelt key"),
        pytest.param(VALID.replace('site = "backward"\n', ""), "site", id="missing key"),
        pytest.param(VALID.replace("insert-before", "insert-beside"), "insert-beside", id="unknown edit"),
        pytest.param(VALID.replace('"backward"', '"forward"'), "forward", id="unknown site"),
        pytest.param(VALID + "[[edits]]\ntemplate = 'x'\n", "edit", id="edit without its kind"),
        pytest.param(VALID + "[[asks]]\nwhen = 'true'\n", "message", id="question without a message"),
        pytest.param(VALID + "[[asks]]\nmessage = 'x'\nwhen = 'true'\nif = 1\n", "if", id="unknown key of a question"),
        pytest.param(VALID + "[[notes]]\ntext = 'x'\n", "text", id="unknown key of a note"),
        pytest.param(VALID + "[[asks]]\nmessage = 3\nwhen = 'true'\n", "message is 3", id="message that is no text"),
        pytest.param(VALID + "at = 3\n", "at is 3", id="key that is no text"),
        pytest.param(VALID + "asks = 3\n", "rule", id="questions that are no list"),
        pytest.param(VALID + "asks = ['x']\n", "rule", id="question that is no table"),
    ],
)
def test_broken_rule_is_one_problem_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    if "[[edits]]" in text:
        text = text.replace('edit = "insert-before"\n', "").replace('template = "print({{ site.model }})"\n', "")
    with pytest.raises(UserError) as caught:
        load_recipe(RECIPE_FOLDER, folder_with(tmp_path, broken=text))
    (problem,) = caught.value.problems
    assert problem.file == str(tmp_path / "broken.toml")
    assert problem.code == "RF007"
    assert words in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("not site.just_preceded_by('print')", "not (site", id="condition with a syntax error"),
        pytest.param("not site.just_preceded_by('print')", "site.colour == 1", id="unknown property in a condition"),
        pytest.param("not site.just_preceded_by('print')", "site.colour.red", id="property of nothing"),
        pytest.param("not site.just_preceded_by('print')", "nothing", id="unknown name in a condition"),
        pytest.param("{{ site.model }}", "{{ site.model }", id="template with a syntax error"),
        pytest.param("{{ site.model }}", "{{ site.colour }}", id="unknown property in a template"),
        pytest.param("{{ site.model }}", "{% if %}", id="broken statement"),
        pytest.param("{{ site.model }}", "{{ site.model | paint }}", id="unknown filter"),
        pytest.param("{{ site.model }}", "{{ 1 / 0 }}", id="division by zero"),
        pytest.param("not site.just_preceded_by('print')", "site.mentions()", id="missing argument"),
        pytest.param('edit = "insert-before"\n', 'edit = "insert-before"\nat = "nowhere"\n', id="unknown anchor"),
        pytest.param('"insert-before"', "\"insert-{{ 'beside' }}\"", id="kind that turns out unknown"),
        pytest.param("print({{ site.model }})", "print(", id="code that is no Python"),
        pytest.param("{{ site.model }}", "{{ site.__class__ }}", id="what Python has"),
        pytest.param("{{ site.model }}", "{{ site.index.source.path.unlink() }}", id="a file's path"),
        pytest.param("{{ site.model }}", "{{ site.node.func }}", id="a tree"),
        pytest.param("{{ site.model }}", "{{ [site] | map(attribute='index') | list }}", id="what a filter reads"),
        pytest.param("{{ site.model }}", "{{ (site | attr('index')).files }}", id="a filter that is not known"),
        pytest.param("{{ site.model }}", "{{ '{0.index}'.format(site) }}", id="what a format reads"),
        pytest.param("{{ site.model }}", "{{ site.mentions.__globals__ }}", id="what a method has"),
        pytest.param("{{ site.model }}", "{{ site.anchors.values() | first | repr }}", id="what is no plain value"),
        pytest.param("{{ site.model }}", "{{ range(10) }}", id="a name of Jinja2"),
        pytest.param("{{ site.model }}", "{{ cycler.__init__.__globals__.os.system('x') }}", id="a way out of Jinja2"),
        pytest.param("{{ site.model }}", "{{ 'x' * 1000000000 }}", id="a long text"),
        pytest.param("{{ site.model }}", "{{ 10 ** 1000000 }}", id="a long number"),
        pytest.param("{{ site.model }}", "{% include 'recipe.toml' %}", id="another file"),
        pytest.param("{{ site.model }}", "{% set _ = script.models.append(1) %}", id="what would change a site"),
    ],
)
def test_mistake_in_a_condition_or_template_is_one_problem_that_names_the_rule(
    tmp_path: Path, old: str, new: str
) -> None:
    assert old in VALID
    rules = load_recipe(RECIPE_FOLDER, folder_with(tmp_path, TST001=VALID.replace(old, new)))
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (problem,) = refusal_of(lambda: make_plan(script, "train.py", rules, Options())).problems
    assert problem.file in (str(tmp_path / "TST001.toml"), "TST001")  # that of the code is known by its rule alone
    assert "TST001" in str(problem)
    assert problem.code == "RF007"
    assert "\n" not in str(problem)


def test_sites_know_their_neighbours() -> None:
    (site,) = survey_of(
        "for e in range(3):\n    for x in y:\n        a()\n        loss.backward()\n        b()\n        c()\n"
    ).backwards
    assert site.just_preceded_by("a")
    assert site.just_followed_by("b")
    assert site.followed_by("c")
    assert not site.just_followed_by("c")
    assert not site.preceded_by("b")
    assert not site.inside("e")
    assert site.mentions("loss")
    assert not site.mentions("los")


# What the rules ask for by name


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        pytest.param("import a.b\na.b.f()\n", "a.b.f", 1, id="full name"),
        pytest.param("import a.b\na.b.f()\n", "b.f", 1, id="end of the full name"),
        pytest.param("from a import b\nb.f()\n", "a.b.f", 1, id="imported module"),
        pytest.param("from a.b import f as g\ng()\n", "b.f", 1, id="another name"),
        pytest.param("import a.ab\na.ab.f()\n", "b.f", 0, id="end of a word"),
        pytest.param("import a.b\na.b.f\n", "b.f", 0, id="not called"),
        pytest.param("import pai_distributed\npai_distributed.save_name('x')\n", "save_name", 1, id="provided"),
        pytest.param("from pai_distributed import save_name as s\ns('x')\n", "save_name", 1, id="provided, renamed"),
        pytest.param("from mine import save_name\nsave_name('x')\n", "save_name", 0, id="another module's"),
        pytest.param("def save_name(x):\n    pass\nsave_name('x')\n", "save_name", 0, id="the script's own"),
        pytest.param("import mine\nmine.f()\n", "f", 0, id="a bare name that is not provided"),
    ],
)
def test_calls_are_found_by_name(text: str, name: str, found: int) -> None:
    script = survey(source_of(text), Choices(provided=recipe().provided))
    assert len(script.calls(name)) == found


# Questions come first


def test_where_there_is_a_question_nothing_is_worked_out(tmp_path: Path) -> None:
    broken = "when = 'true'\nmessage = '{{ site.colour }}'\n"
    late = VALID.partition("edit =")[0] + 'why = "Because."\nsource = "tests"\n'
    late += f"[[asks]]\nwhen = 'true'\nmessage = 'Which?'\n[[notes]]\n{broken}"
    late += "[[edits]]\nedit = 'insert-before'\ntemplate = '{{ site.colour }}'\n"
    outcome = outcome_of(SCRIPT, load_recipe(RECIPE_FOLDER, folder_with(tmp_path, TST001=late)))
    assert [problem.message for problem in outcome.questions] == ["Which?"]
    assert (outcome.edits, outcome.notes) == ([], [])


@pytest.mark.parametrize(
    ("line", "questions", "notes"),
    [
        pytest.param("import deepspeed; deepspeed.initialize(model)", ["PAI100"], [], id="DeepSpeed"),
        pytest.param("import deepspeed", [], [], id="DeepSpeed imported alone"),
        pytest.param("from accelerate import Accelerator; a = Accelerator()", ["PAI100"], [], id="Accelerate"),
        pytest.param("from accelerate import Accelerator", [], [], id="Accelerate imported alone"),
        pytest.param(
            "from apex import amp; amp.initialize(model)", ["PAI100"], [], id="Apex beside a wrapper of torch"
        ),
        pytest.param("from apex.parallel import DistributedDataParallel", [], [], id="Apex imported alone"),
        pytest.param(
            "import torch; average = torch.optim.swa_utils.AveragedModel(model)",
            [],
            ["PAI100"],
            id="average of weights",
        ),
    ],
)
def test_framework_beside_a_wrapper(line: str, questions: list[str], notes: list[str]) -> None:
    outcome = outcome_of(f"{line}\n{SCRIPT}", recipe())
    assert [problem.code for problem in outcome.questions] == questions
    assert [problem.code for problem in outcome.notes] == notes


TRIED = "try:\n    import deepspeed\nexcept ImportError:\n    deepspeed = None"
AVERAGED = """
class Average(torch.optim.swa_utils.AveragedModel):
    def __init__(self, model, decay):
        super().__init__(model)
"""


@pytest.mark.parametrize(
    ("before", "after", "questions", "notes"),
    [
        pytest.param(TRIED, "", [], [], id="tried and never used"),
        pytest.param(TRIED, "if args.deepspeed:\n    model = deepspeed.initialize(model)", [], ["PAI100"], id="option"),
        pytest.param(
            "import deepspeed", "if args.deepspeed:\n    m = deepspeed.initialize(m)", [], ["PAI100"], id="plain import"
        ),
        pytest.param(TRIED, "m = deepspeed.initialize(m) if args.deep else m", [], ["PAI100"], id="expression"),
        pytest.param(
            TRIED,
            "def shard(m):\n    return deepspeed.initialize(m)\nif args.stage > 0:\n    shard(model)",
            [],
            ["PAI100"],
            id="function that an option calls",
        ),
        pytest.param(AVERAGED, "if args.ema:\n    average = Average(model, 0.9)", [], ["PAI100"], id="own class of it"),
        pytest.param(
            "",
            "if args.plain:\n    pass\nelse:\n    torch.optim.swa_utils.AveragedModel(model)",
            [],
            ["PAI100"],
            id="else",
        ),
        pytest.param("import deepspeed", "", [], [], id="imported and never used"),
        pytest.param(TRIED, "model = deepspeed.initialize(model)", ["PAI100"], [], id="tried, then used all the same"),
        pytest.param(AVERAGED, "average = Average(model, 0.9)", [], ["PAI100"], id="own class, always"),
        pytest.param(
            "",
            "for e in range(9):\n    if e_epoch == 5:\n        a = torch.optim.swa_utils.AveragedModel(model)",
            [],
            ["PAI100"],
            id="from some epoch on",
        ),
        pytest.param(TRIED, "if rank == 0:\n    deepspeed.initialize(model)", ["PAI100"], [], id="of one rank"),
        pytest.param(
            TRIED,
            "if args.distributed:\n    deepspeed.initialize(model)",
            ["PAI100"],
            [],
            id="wherever it is distributed",
        ),
        pytest.param(
            TRIED, "if __name__ == '__main__':\n    deepspeed.initialize(model)", ["PAI100"], [], id="main program"
        ),
        pytest.param(
            TRIED,
            "if args.deep:\n    deepspeed.initialize(model)\ndeepspeed.init_distributed()",
            ["PAI100"],
            [],
            id="used elsewhere too",
        ),
    ],
)
def test_framework_that_an_option_leads_to(before: str, after: str, questions: list[str], notes: list[str]) -> None:
    outcome = outcome_of(f"import torch\n{before}\n{SCRIPT}\n{after}\n", recipe())
    assert [problem.code for problem in outcome.questions] == questions
    assert [problem.code for problem in outcome.notes] == notes


OWN_LIGHTNING = "import pytorch_lightning as pl\n\nclass Module(pl.LightningModule):\n    pass\n"
OWN_TRAINER = "from transformers import Trainer\n\nclass Mine(Trainer):\n    pass\n"
SHARDING = "from torch.distributed import fsdp\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"


@pytest.mark.parametrize(
    ("before", "after", "questions"),
    [
        pytest.param("import pytorch_lightning as pl\npl.seed_everything(1)\n", "", [], id="Lightning's seed"),
        pytest.param(OWN_LIGHTNING, "", [], id="a class of Lightning's that is never made"),
        pytest.param(OWN_LIGHTNING, "net = Module()", [], id="a class of Lightning's as any module"),
        pytest.param(OWN_LIGHTNING, "pl.Trainer().fit(Module())", ["PAI100"], id="Lightning's trainer"),
        pytest.param(OWN_LIGHTNING, "def fit():\n    pl.Trainer().fit(Module())", [], id="in a function never called"),
        pytest.param(
            OWN_LIGHTNING, "def fit():\n    pl.Trainer().fit(Module())\nfit()", ["PAI100"], id="in one that is called"
        ),
        pytest.param(
            OWN_LIGHTNING, "t = pl.Trainer.from_argparse_args(args)", ["PAI100"], id="made by a method of the class"
        ),
        pytest.param(OWN_TRAINER, "", [], id="a class of the Trainer's that is never made"),
        pytest.param(OWN_TRAINER, "Mine(model).train()", ["PAI100"], id="an own Trainer that is made"),
        pytest.param("from transformers import TrainerState\nstate = TrainerState()\n", "", [], id="what it keeps"),
        pytest.param(SHARDING, "settings = fsdp.MixedPrecision()", [], id="settings of FSDP"),
        pytest.param(SHARDING, "def shard(m):\n    return FSDP(m)", [], id="FSDP in a function never called"),
        pytest.param(SHARDING, "model = FSDP(model)", ["PAI100"], id="FSDP"),
        pytest.param(
            SHARDING, "with fsdp.wrap.enable_wrap(wrapper_cls=FSDP):\n    m()", ["PAI100"], id="FSDP handed on"
        ),
        pytest.param("import accelerate\naccelerate.utils.set_seed(1)\n", "", [], id="Accelerate's seed"),
        pytest.param("import deepspeed\n", "o = deepspeed.ops.adam.FusedAdam(p)", [], id="DeepSpeed's optimizer"),
    ],
)
def test_framework_counts_where_it_takes_part_in_the_training(before: str, after: str, questions: list[str]) -> None:
    outcome = outcome_of(f"{before}{SCRIPT}\n{after}\n", recipe())
    assert [problem.code for problem in outcome.questions] == questions


def test_framework_of_a_script_without_a_training_of_its_own_counts_as_it_is_imported() -> None:
    (question,) = outcome_of(f"{OWN_LIGHTNING}\ntrainer = instantiate(config.trainer)\n", recipe()).questions
    assert (question.code, "PyTorch Lightning" in question.message) == ("PAI100", True)


def test_an_average_of_an_own_class_is_no_optimizer_and_gives_no_first_weights(tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "    for epoch in", "    average = Average(model, 0.9) if args.ema else None\n    for epoch in"
    )
    text = f"import torch\n{AVERAGED}\n{script}"
    (written,) = [f.after.decode() for f in plan_of(tmp_path, text).files if f.path.name == "train.py"]
    assert "set_optimizer_instance(average)" not in written
    assert "\n        super().__init__(model)\n" in written


def test_average_of_weights_beside_dataparallel() -> None:
    text = "import torch\nmodel = torch.nn.DataParallel(Net())\naverage = torch.optim.swa_utils.AveragedModel(model)\n"
    assert "PAI100" not in [problem.code for problem in outcome_of(text, recipe()).questions]


def test_framework_without_a_wrapper_is_the_only_question() -> None:
    text = "from apex.parallel import DistributedDataParallel as DDP\nmodel = DDP(Net())\n"
    assert [problem.code for problem in outcome_of(text, recipe()).questions] == ["PAI100"]


def test_wrapped_part_is_the_only_question() -> None:
    wrap = "model = DistributedDataParallel(model)"
    (problem,) = outcome_of(SCRIPT.replace(wrap, "model[0] = DistributedDataParallel(model.first)"), recipe()).questions
    assert (problem.code, "only `model.first`, a part of a model" in problem.message) == ("PAI102", True)


def test_ranks_that_leave_the_epoch_are_a_question() -> None:
    text = SCRIPT.replace(
        "        acc = validate", "        if dist.get_rank() != 0:\n            continue\n        acc = validate"
    )
    (problem,) = outcome_of(text, recipe()).questions
    assert (problem.code, "some ranks leave the epoch" in problem.message) == ("PAI105", True)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("print(1)", "a second rewriting would change it again", id="endless"),
        pytest.param("break", "does not compile", id="broken"),
        pytest.param("criterion = 1", "local names|second rewriting", id="name taken"),
    ],
)
def test_users_rule_that_writes_what_cannot_be_is_no_mistake_of_ours(tmp_path: Path, template: str, words: str) -> None:
    text = VALID.replace("print({{ site.model }})", template).replace("not site.just_preceded_by('print')", "true")
    text = text.replace('"backward"', '"wrapper"') if template == "break" else text
    rules = load_recipe(RECIPE_FOLDER, folder_with(tmp_path, TST001=text))
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (problem,) = refusal_of(lambda: make_plan(script, "train.py", rules, Options())).problems
    assert problem.code == "RF007"
    assert re.search(words, problem.message)
