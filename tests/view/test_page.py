"""The page of `drystone view` in a real browser: what its pixels, figures and lists say is what NumPy says."""

import json
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone.view import Server

pytestmark = pytest.mark.slow

PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def page(served, window):
    """The page, freshly opened; at the end nothing may have gone wrong in it, or have left this machine."""
    _, server = served
    window.problems.clear()
    window.requests.clear()
    window.resize(1280, 860)
    opened(window, server)
    window.server = server
    yield window
    assert not window.problems
    assert all(
        url.startswith((f"http://127.0.0.1:{server.port}/", "blob:", "data:", "about:"))
        for url in window.requests
    )


def opened(window, server):
    window.open("about:blank")
    window.open(server.url)
    window.wait("document.body?.dataset.ready === 'yes'")


def show(page, name):
    page.run(f"location.hash = {json.dumps('#' + name)}")
    heading = f"document.querySelector('h1')?.textContent.startsWith({json.dumps(name)})"
    page.wait(f"{heading} && !!document.querySelector('#panel')")


def drawn(page, shows, canvas="#image"):
    """Waits until the canvas shows this place, and is painted."""
    page.wait(f"document.querySelector('{canvas}')?.dataset.shows === '{shows}'")
    page.run(PAINTED)


def middle(page, row, column, shape, flip):
    """Where the middle of a cell stands in the window, once what is shown is painted there."""
    page.run(PAINTED)
    frame = page.wait("document.querySelector('#image')?.dataset.frame")
    left, top, _, _ = page.box("#image")
    x, y, w, h = map(float, frame.split(","))
    down = (row + 0.5) / shape[0]
    return left + x + w * (column + 0.5) / shape[1], top + y + h * (1 - down if flip else down)


def colours(page, name):
    found = page.run(f"import('/colours.js').then((m) => Array.from(m.table({json.dumps(name)})))")
    return np.array(found).reshape(256, 3)


def seen(page, values, flip, colour_map, low=None, high=None):
    """Compares the middle of each cell that is large enough with the colour of NumPy's value."""
    page.run(PAINTED)
    width, _, data = page.pixels("#image")
    image = np.frombuffer(data, "u1").reshape(-1, width, 4)
    low = np.nanmin(values) if low is None else low
    high = np.nanmax(values) if high is None else high
    places = np.floor((values - low) * (256 / (float(high) - float(low))))
    table = colours(page, colour_map)
    for row in range(0, values.shape[0], 3):
        for column in range(0, values.shape[1], 4):
            x, y = middle(page_box(page), row, column, values.shape, flip)
            found = image[int(y), int(x), :3]
            if np.isnan(values[row, column]):
                background = page.run(
                    "getComputedStyle(document.documentElement).getPropertyValue('--missing')"
                ).strip()
                assert [int(background[i : i + 2], 16) for i in (1, 3, 5)] == found.tolist()
            else:
                place = int(np.clip(places[row, column], 0, 255))
                near = table[max(0, place - 1) : place + 2]
                assert np.abs(near.astype(int) - found).sum(axis=1).min() <= 3, (
                    row,
                    column,
                    found,
                    table[place],
                )


class page_box:
    """The page, with the canvas at the origin: pixels of a canvas have no window around them."""

    def __init__(self, page):
        self._frame = page.wait("document.querySelector('#image')?.dataset.frame")

    def box(self, _):
        return 0, 0, 0, 0

    def run(self, _):
        """Nothing is asked of a page that is painted."""

    def wait(self, _):
        return self._frame


def test_the_container_is_summed_up_and_its_names_form_a_tree(page, served):
    c, _ = served
    assert "run42.dry" in page.text("header")
    said = page.text("#main")
    for text in ("nothing waits", "3: 0 to 2", "12 variables, 1 group", "what a page shows"):
        assert text in said
    names = page.run("[...document.querySelectorAll('[role=treeitem]')].map((e) => e.dataset.path)")
    assert set(names) == {*c.variables, *c.groups}
    assert "<img src=x" in page.text("#attributes")  # shown, not made


@pytest.mark.parametrize("colour_map", ["viridis", "land and sea", "gray"])
def test_an_image_shows_the_values_of_numpy(page, served, colour_map):
    T = served[0]["fields/temperature"]
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.choose("#colours", colour_map)
    page.run(PAINTED)
    seen(page, T[2, 0].astype("f8"), True, colour_map)
    page.choose("#colours", "viridis")


def test_sliders_go_through_every_axis_and_the_step(page, served):
    T = served[0]["fields/temperature"]
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.choose("#axis-1", "4")
    drawn(page, "2,4,0,0")
    page.choose("#axis-0", "1")
    drawn(page, "1,4,0,0")
    seen(page, T[1, 4].astype("f8"), True, "viridis")
    page.choose("#down", "1")
    drawn(page, "1,4,0,0")
    page.wait("!!document.querySelector('#axis-2')")
    page.choose("#axis-2", "33")
    drawn(page, "1,4,33,0")
    seen(page, T[1, :, 33].astype("f8"), False, "viridis")


def test_the_value_under_the_pointer_is_that_of_the_cell(page, served):
    T = served[0]["fields/temperature"]
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    for row, column in ((0, 0), (39, 59), (17, 31), (20, 5)):
        page.move(*middle(page, row, column, (40, 60), True))
        page.wait(f"document.querySelector('#cell')?.textContent === '[2, 0, {row}, {column}]'")
        assert np.float32(page.text("#under")) == T[2, 0, row, column]
    lat, lon = served[0]["lat"][20], served[0]["lon"][5]
    assert f"lat {lat:g} °N" in page.text("#readout")
    assert f"lon {lon:g} °E" in page.text("#readout")


def test_keys_move_the_cross_hair_choose_a_cell_and_zoom(page, served):
    T = served[0]["fields/temperature"]
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.run("document.querySelector('#image').focus()")
    page.press("ArrowRight")
    page.wait("document.querySelector('#cell')?.textContent === '[2, 0, 20, 31]'")
    page.press("ArrowUp")  # north is up
    page.wait("document.querySelector('#cell')?.textContent === '[2, 0, 21, 31]'")
    page.press("Enter")
    page.wait("document.querySelector('#exact')?.textContent.startsWith('[2, 0, 21, 31] = ')")
    assert np.float32(page.text("#exact").split("= ")[1]) == T[2, 0, 21, 31]
    drawn(page, "2,0,21,31", "#profile")
    page.press("+")
    page.wait("!!document.querySelector('#whole')")
    page.press("-")
    page.wait("!document.querySelector('#whole')")


def test_a_part_is_dragged_out_and_a_profile_clicked(page, served):
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.drag(middle(page, 30, 10, (40, 60), True), middle(page, 11, 29, (40, 60), True))
    page.wait(
        "!!document.querySelector('#whole') && document.querySelector('.facts dd')?.textContent === '400'"
    )
    page.move(*middle(page, 0, 0, (20, 20), True))
    page.wait("document.querySelector('#cell')?.textContent === '[2, 0, 11, 10]'")
    page.click(middle(page, 3, 4, (20, 20), True))
    drawn(page, "2,0,14,14", "#profile")
    page.click("#whole")
    page.wait("!document.querySelector('#whole')")


def test_the_range_of_colours_can_be_set(page, served):
    T = served[0]["fields/temperature"]
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.choose("#low", "285")
    page.choose("#high", "295")
    page.run(PAINTED)
    seen(page, T[2, 0].astype("f8"), True, "viridis", 285, 295)
    page.click("#auto")
    page.wait("Number(document.querySelector('#low').value) < 284")


def test_a_condition_marks_its_hits_in_the_picture(page, served):
    c, _ = served
    show(page, "fields/temperature")
    drawn(page, page.wait("document.querySelector('#image')?.dataset.shows"))

    def ask(text):
        page.run(
            f"document.querySelector('#condition').value = {json.dumps(text)}; "
            "document.querySelector('#condition').dispatchEvent(new Event('change'))"
        )

    values = c["fields/temperature"][-1, 0]
    middle_value = float(np.median(values))
    ask(f"fields/temperature > {middle_value!r}")
    hits = int((values > np.float32(middle_value)).sum())
    page.wait(f"document.querySelector('#image').dataset.hits === '{hits}'")
    assert f"of {values.size}" in page.run(
        "document.querySelector('#hits').textContent.replaceAll(/[^0-9a-z ]/g, '')"
    )
    ask("fields/temprature > 1")
    page.wait("document.querySelector('#hits').textContent.includes('did you mean')")
    assert page.run("document.querySelector('#image').dataset.hits") == ""
    page.problems.clear()  # the refusal, as the browser tells it
    ask("")
    page.wait("document.querySelector('#hits').textContent === ''")


def test_missing_values_and_packed_ones(page, served):
    stored = served[0]["packed"][...]
    show(page, "packed")
    drawn(page, "0,0")
    seen(page, np.where(stored == -99, np.nan, stored * 0.5 + 10), True, "viridis")
    page.move(*middle(page, 4, 6, (40, 60), True))
    page.wait("document.querySelector('#under')?.textContent === 'missing'")
    page.click("#plain")
    page.wait("Number(document.querySelector('#low').value) === -99")


def test_lines_have_gaps_where_there_is_no_value(page, served):
    show(page, "series")
    drawn(page, "0", "#line")
    page.run("document.querySelector('#line').focus()")
    for _ in range(2):
        page.press("ArrowRight")
    page.wait("document.querySelector('#cell')?.textContent === '[251]'")
    assert float(page.text("#under")) == served[0]["series"][251]
    assert "NaN\n1" in page.text(".side .facts") or "1" in page.text(".side .facts")


def test_large_arrays_come_thinned_and_in_full_where_they_are_narrowed(page, served):
    show(page, "wide")
    drawn(page, "0,0")
    assert "every 3rd cell along axis 0 and every 3rd cell along axis 1" in page.text("#note")
    page.run("document.querySelector('#image').focus()")
    for _ in range(2):
        page.press("+")
        page.wait("!!document.querySelector('#whole') && !document.querySelector('.busy')")
    page.wait("document.querySelector('#note')?.textContent === ''")
    page.press("ArrowDown")
    cell = json.loads(page.wait("document.querySelector('#cell')?.textContent"))
    assert float(page.text("#under")) == served[0]["wide"][tuple(cell)]


def test_records_complex_numbers_texts_single_values_and_local_ones(page, served):
    show(page, "fields/velocity")
    drawn(page, "0,0")
    assert page.run("document.querySelector('#member').value") == "x"
    seen(page, served[0]["fields/velocity"]["x"][...].astype("f8"), True, "viridis")
    page.choose("#member", "")
    page.wait("document.querySelector('#table td')?.textContent.includes('name: ab')")
    show(page, "fields/wave")
    drawn(page, "0,0")
    page.choose("#part", "abs")
    wave = np.abs(served[0]["fields/wave"][...])
    page.wait(f"Math.abs(Number(document.querySelector('#high').value) - {wave.max()}) < 0.001")
    seen(page, wave, True, "viridis")
    show(page, "texts")
    page.wait("document.querySelectorAll('#table td').length === 3")
    assert "<b>bold</b>" in page.text("#table")
    show(page, "whole")
    page.wait(f"document.querySelector('#value')?.textContent === '{2**60 + 1}'")
    show(page, "each")
    page.wait("!!document.querySelector('#block')")
    blocks = page.run("[...document.querySelector('#block').options].map((one) => one.textContent)")
    page.choose("#block", next(str(n) for n, text in enumerate(blocks) if text.endswith(", 7")))
    page.wait("document.querySelector('.facts dd')?.textContent === '7'")
    show(page, "empty")
    page.wait("document.querySelector('#note')?.textContent.includes('0 × 4')")


def test_the_map_shows_blocks_and_what_is_known_of_each(page, served):
    show(page, "fields/temperature")
    page.click("#tab-layout")
    page.wait("document.querySelectorAll('#blocks tbody tr').length === 2")
    page.run(PAINTED)
    left, top, width, height = page.box("#map")
    page.click((left + width * 0.5, top + height * 0.2))  # the north
    page.wait("document.querySelector('#block-facts')?.textContent.includes('rank 1')")
    page.wait("document.querySelector('#plan')?.textContent.includes('1 block')")
    said = page.text("#block-facts")
    assert "[0, 20, 0]" in said
    assert "4 of 3 × 20 × 30" in said
    assert "log/" in said
    page.run("document.querySelector('#map').focus()")
    page.press("ArrowRight")
    page.wait("document.querySelector('#block-facts')?.textContent.includes('rank 0')")


def test_statistics_come_from_what_is_stored_and_from_values(page, served):
    T = served[0]["fields/temperature"][2]
    show(page, "fields/temperature")
    page.click("#tab-statistics")
    page.wait("document.querySelector('#sampled')?.textContent.includes('Of all cells')")
    assert f"{T.max():.7g}" in page.text("#stored")
    assert f"{T.mean(dtype='f8'):.7g}" in page.text("#sampled")
    page.click("#tab-about")
    page.wait("document.querySelector('#panel').textContent.includes('shuffle,zstd:1')")
    assert "3 × 20 × 30" in page.text("#panel")


def test_the_tree_is_walked_by_keys_and_narrowed(page):
    page.press("/")
    page.wait("document.activeElement.id === 'filter'")
    for letter in "wav":
        page.press(letter)
    page.wait("document.querySelectorAll('[role=treeitem]').length === 2")
    page.choose("#filter", "")
    page.run("document.querySelector('[role=treeitem][tabindex=\"0\"]').focus()")
    assert page.run("document.activeElement.dataset.path") == "fields"
    page.press("ArrowLeft")
    page.wait("document.activeElement.getAttribute('aria-expanded') === 'false'")
    page.press("ArrowRight")
    page.wait("document.activeElement.getAttribute('aria-expanded') === 'true'")
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('h1')?.textContent.startsWith('fields/velocity')")
    page.run("document.querySelector('#tab-values').focus()")
    page.press("ArrowRight")
    page.wait(
        "document.activeElement.id === 'tab-layout' && document.activeElement.getAttribute('aria-selected') === 'true'"
    )


def test_an_address_brings_back_what_was_shown(page):
    show(page, "fields/temperature")
    page.choose("#axis-1", "3")
    drawn(page, "2,3,0,0")
    address = page.run("location.href")
    page.open("about:blank")
    page.open(address)
    page.wait("document.body?.dataset.ready === 'yes'")
    drawn(page, "2,3,0,0")


def test_what_goes_wrong_is_one_line_in_the_page(page):
    page.run("location.hash = '#no/such'")
    page.wait("document.querySelector('#why')?.textContent.includes('no/such')")
    page.problems.clear()  # the browser notes the answer 404


def test_new_steps_are_followed(tmp_path, window):
    with dry.create(tmp_path / "run.dry") as c, dry.open(tmp_path / "run.dry") as reader:
        T = c.create_variable("T", "f4", (8, 9), steps=True)

        def step(t):
            with c.writer(rank=0, nranks=1) as w, w.step(t):
                w.put("T", np.arange(72, dtype="f4").reshape(8, 9) + t)

        step(0)
        with Server(reader).start() as server:
            opened(window, server)
            show(window, "T")
            drawn(window, "0,0,0")
            step(1)
            drawn(window, "1,0,0")
            assert np.isclose(float(window.run("document.querySelector('#high').value")), T[1].max())
            window.choose("#axis-0", "0")
            drawn(window, "0,0,0")
            step(2)  # who looks at an earlier step stays there
            window.wait("document.querySelector('#axis-0')?.max === '2'")
            drawn(window, "0,0,0")
        window.wait("document.querySelector('#problem')?.textContent.includes('still running')", 10)
        window.problems.clear()


def test_damage_is_told_and_the_rest_can_still_be_seen(tmp_path, window):
    with dry.create(tmp_path / "run.dry") as c, c.writer() as w:
        c.create_variable("bad", "f4", (64, 64))
        c.create_variable("good", "f4", (64, 64))
        w.put("bad", np.ones((64, 64), "f4"))
        w.put("good", np.full((64, 64), 2, "f4"))
        w.close()
        c.commit()
        key, start, _ = c["bad"].blocks()[0].place
    segment = Path(tmp_path / "run.dry" / key)
    data = bytearray(segment.read_bytes())
    data[start + 100] ^= 1
    segment.write_bytes(data)
    with dry.open(tmp_path / "run.dry") as c, Server(c).start() as server:
        opened(window, server)
        show(window, "bad")
        window.wait("document.querySelector('#problem')?.textContent.includes('damaged')")
        assert key in window.text("#problem")
        show(window, "good")
        drawn(window, "0,0")
        window.wait("document.querySelector('#problem').hidden")
        window.problems.clear()


def test_it_is_dark_where_that_is_preferred_and_fits_a_narrow_window(page):
    page.prefer("dark")
    opened(page, page.server)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 22)"
    page.click("#theme")
    page.wait("getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 246)'")
    page.run("localStorage.clear()")
    page.prefer("light")
    page.resize(420, 800)
    show(page, "fields/temperature")
    drawn(page, "2,0,0,0")
    page.wait("document.documentElement.scrollWidth <= 420")


def test_what_the_page_has_to_say_stands_in_the_window(window, tmp_path, monkeypatch):
    """Under an empty picture's place it stood below the window; a long name pushed all figures out of the table."""
    window.problems.clear()
    window.resize(1100, 720)
    monkeypatch.setattr("drystone.view.questions._LIMIT", 100_000)
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("x" * 120, "f4", (4, 4))[...] = 1
        c.create_variable("none", "f4", (0, 4, 5))
        c.create_variable("large", "f4", (300, 300))[...] = 1
        with Server(c).start() as server:
            opened(window, server)
            stored = "document.querySelector('#usage tbody td:nth-child(4)').getBoundingClientRect().right"
            assert window.run(stored) < 1100
            for name, said in (("none", "the array is empty"), ("large", "would be read")):
                window.run(f"location.hash = '#{name}'")
                window.wait(f"document.querySelector('#note')?.textContent.includes('{said}')")
                _, top, _, height = window.box("#note")
                assert top + height < 400
            window.run("document.querySelector('#anyway').click()")
            window.wait(
                "document.querySelector('#image')?.dataset.shows && !document.querySelector('#image').hidden"
            )
    window.problems.clear()
    window.resize(1280, 860)


@pytest.fixture
def layered(tmp_path):
    """A field of three axes that four ranks wrote slab by slab, with fill values in it."""
    values = np.arange(16 * 20 * 30, dtype="f4").reshape(16, 20, 30)
    values[:4, 0, 0] = -1e34
    with dry.create(tmp_path / "layered.dry", durability="memory") as c:
        c.create_variable(
            "V",
            "f4",
            values.shape,
            dims=("z", "y", "x"),
            chunks=(4, 10, 30),
            fill_value=-1e34,
            transform="auto:size",
        )
        for rank in range(4):
            with c.writer(rank=rank, nranks=4) as w:
                w.put("V", values[4 * rank : 4 * rank + 4], offset=(4 * rank, 0, 0))
        c.commit()
        with Server(c).start() as server:
            yield server


def test_a_layout_of_three_axes_shows_one_plane_and_leads_to_the_others(window, layered):
    """Only the topmost of four slabs was seen, and nothing said that three lay below it."""
    window.problems.clear()
    window.resize(1280, 860)
    opened(window, layered)
    window.run("location.hash = '#V?tab=layout'")
    window.wait("!!document.querySelector('#plane-0')")
    assert "1 block of 4 in this plane" in window.text("#in-plane")
    left, top, width, height = window.box("#map")
    window.click((left + width / 2, top + height / 2))
    window.wait("document.querySelector('#block-facts').textContent.includes('rank 2')")
    set_plane = (
        "const one = document.querySelector('#plane-0'); one.value = 1; one.dispatchEvent(new Event('input'))"
    )
    window.run(set_plane)
    window.click((left + width / 2, top + height / 2))
    window.wait("document.querySelector('#block-facts').textContent.includes('rank 0')")
    # A block chosen from the table brings its plane; extremes that are fill values are no values.
    window.run("document.querySelectorAll('#blocks tbody button')[3].click()")
    window.wait("document.querySelector('#plane-0').value === '14'")
    assert "fill value" in window.run("document.querySelector('#blocks tbody tr').textContent")
    assert "fill value" not in window.run("document.querySelectorAll('#blocks tbody tr')[1].textContent")
    assert not window.problems


def test_about_tells_the_cut_of_the_blocks_and_transforms_as_they_are_typed(window, layered):
    """It said "whole blocks" of a variable that the layout showed cut, whenever no chunks were declared."""
    opened(window, layered)
    window.run("location.hash = '#V?tab=about'")
    window.wait("document.querySelector('#cut')?.textContent === '4 × 10 × 30'")
    assert "auto:size" in window.run("document.querySelector('#panel').textContent")


def test_on_a_narrow_screen_the_picture_has_the_width_and_names_fold_away(window, layered):
    """At 400 pixels the list of names took the screen, and the picture began below the fold, 190 pixels wide."""
    window.resize(400, 800)
    opened(window, layered)
    assert window.run("getComputedStyle(document.querySelector('#tree')).display") == "block"
    window.run("document.querySelector('[data-path=\"V\"] .node').click()")
    window.wait("!!document.querySelector('#image')?.dataset.frame")
    assert window.run("getComputedStyle(document.querySelector('#contents')).display") == "none"
    left, top, width, _ = window.box("#image")
    assert top < 300
    assert width > 340
    assert left >= 8
    assert float(window.run("document.querySelector('#image').dataset.frame").split(",")[2]) > 230
    assert window.run("document.documentElement.scrollWidth") <= 400
    right = window.run(
        "Math.max(...[...document.querySelectorAll('.card')].map((one) => one.getBoundingClientRect().right))"
    )
    assert right <= 394
    window.click("#names")
    assert window.run("getComputedStyle(document.querySelector('#contents')).display") != "none"
    window.resize(1280, 860)
