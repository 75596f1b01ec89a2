"""The table of options: what it feeds, which prefix wins, and what is not legal."""

import pytest

from femgpu import options
from femgpu.errors import OptionError
from femgpu.kernels import SCHEDULES
from femgpu.options import OPTIONS, Settings


def test_table_and_settings_agree():
    defaults = Settings()
    assert [option.attribute for option in OPTIONS] == list(vars(defaults))
    for option in OPTIONS:
        value = getattr(defaults, option.attribute)
        assert value == option.default and type(value) is option.kind
        assert not option.choices or option.default in option.choices


def test_table_feeds_help():
    shown = options.help_text()
    for option in OPTIONS:
        assert f"  -{option.name}: <" in shown and option.help in shown
        assert all(choice in shown for choice in option.choices)


def test_defaults():
    assert options.read() == options.read("any_") == Settings()


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_read(option, set_options):
    choices = [choice for choice in option.choices if choice != option.default]
    value = {bool: True, int: "7", str: choices[0] if choices else "text"}[option.kind]
    set_options(**{option.name: value})
    expected = {bool: True, int: 7, str: value}[option.kind]
    assert options.read() == Settings(**{option.attribute: expected})


def test_prefix_wins(set_options):
    set_options(femgpu_schedule="cell", petscfe_num_blocks="2")
    set_options("mine_", femgpu_schedule="transposed", femgpu_precision="single")
    assert options.read() == Settings(schedule="cell", num_blocks=2)
    assert options.read("mine_") == Settings(schedule="transposed", num_blocks=2, precision="single")
    assert options.read("yours_") == options.read()


def test_schedules_and_their_parameters():
    """The table of options names the schedules that there are, and what they may be given."""
    (row,) = (option for option in OPTIONS if option.attribute == "schedule")
    assert row.choices == ("auto", *(entry.name for entry in SCHEDULES))
    assert dict(row.parameters) == {entry.name: entry.parameters for entry in SCHEDULES}
    assert Settings().first_schedule == ("", ())
    assert Settings(num_blocks=4).first_schedule == ("transposed", (("blocks", 4),))
    assert Settings(num_blocks=4, num_batches=2, schedule="cell:group_size=32").first_schedule == ("cell", (("group_size", 32),))
    both = Settings(num_blocks=4, schedule="transposed:blocks=8,batches=2")
    assert both.first_schedule == ("transposed", (("blocks", 8), ("batches", 2)))
    assert [entry.schedule_name for entry in (Settings(num_blocks=4), both)] == ["", "transposed"]


@pytest.mark.parametrize("text, value", [("", True), ("1", True), ("True", True), ("on", True), ("0", False), ("no", False)])
def test_booleans(set_options, text, value):
    set_options(femgpu_view=text)
    assert options.read().view is value


@pytest.mark.parametrize(
    "name, value, said",
    [
        (
            "femgpu_schedule",
            "celll",
            r"expected one of auto, gemm.*, sumfact.*, cell\[:group_size=N,lanes=N,sums=N,turns=N,slots=N\], tra",
        ),
        (
            "femgpu_schedule",
            "cell:blocks=3",
            r"cell has no parameter 'blocks'; expected cell\[:group_size=N,lanes=N,sums=N,turns=N,slots=N\]",
        ),
        ("femgpu_schedule", "cell:group_size=-1", "group_size=-1: expected an integer from 1 to 65536"),
        ("femgpu_schedule", "cell:group_size=0", "group_size=0: expected an integer from 1 to 65536"),
        ("femgpu_schedule", "sumfact:pencils=1,shared=2", "shared=2: expected 0 or 1"),
        ("femgpu_schedule", "cell:group_size=65537", "group_size=65537: expected an integer from 1 to 65536"),
        ("femgpu_schedule", "transposed:blocks=2,batches=0", "batches=0: expected an integer from 1"),
        ("femgpu_schedule", "auto:group_size=64", "auto has no parameter 'group_size'; expected auto alone"),
        ("petscfe_num_blocks", "-1", "expected an integer of at least 0"),
        ("petscfe_num_blocks", "1.5", "expected an integer"),
        ("femgpu_view", "loud", "expected nothing, or one of 1, true"),
        ("petscfe_default_quadrature_order", "-2", "at least -1"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "mine_"])
def test_illegal_values(set_options, prefix, name, value, said):
    set_options(prefix, **{name: value})
    with pytest.raises(OptionError, match=f"-{prefix}{name} '?{value}'?: .*{said}"):
        options.read(prefix)
    if prefix:
        options.read()


def test_unknown_options_list_the_legal_ones(set_options):
    set_options("mine_", femgpu_precisoin="single")
    options.read()
    options.read("yours_")
    with pytest.raises(OptionError, match="-mine_femgpu_precisoin: no such option; did you mean -mine_femgpu_precision") as caught:
        options.read("mine_")
    for option in OPTIONS:
        assert not option.name.startswith("femgpu_") or f"-{option.name}" in str(caught.value)


def test_numbering_has_no_prefix(set_options):
    set_options("heat_", femgpu_reorder_mesh="no")
    with pytest.raises(OptionError, match="-heat_femgpu_reorder_mesh: meshes come before problems"):
        options.read("heat_")
    set_options("heat_", femgpu_reorder="no")
    with pytest.raises(OptionError, match="-heat_femgpu_reorder: spaces come before problems"):
        options.read("heat_")


def test_options_of_others_are_left_alone(set_options):
    set_options(snes_rtol="1e-3", petscfe_type="opencl", notfemgpu="1")
    assert options.read() == Settings()
