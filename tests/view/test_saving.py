"""What the page saves is what it shows; two variables stand at one place; steps that are missing are said to be."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import drystone as dry
import numpy as np
import pytest
from drystone.view import Server

pytestmark = pytest.mark.slow

STEPS = (0, 1, 4, 5, 9)
NY, NX = 12, 20
SVG = "{http://www.w3.org/2000/svg}"


def field(step):
    y, x = np.meshgrid(np.arange(NY), np.arange(NX), indexing="ij")
    values = (300 + step + np.sin(x / 3) * 5 + y / 8).astype("f4")
    values[2, 3] = np.nan
    return values


@pytest.fixture(scope="module")
def gappy(tmp_path_factory):
    """Two fields on the same axes, of which some steps were never written; the second has fewer of them."""
    path = tmp_path_factory.mktemp("saving") / "run7.dry"
    with dry.create(path, durability="memory") as c:
        c.create_variable("T", "f4", (NY, NX), dims=("lat", "lon"), steps=True, attrs={"units": "K"})
        c.create_variable("q", "f8", (3, NY, NX), dims=("z", "lat", "lon"), steps=True)
        c.create_variable("lat", "f8", (NY,), dims=("lat",))[...] = np.linspace(-33, 33, NY)
        c.create_variable("lon", "f8", (NX,), dims=("lon",))[...] = np.linspace(0, 19, NX)
        c.create_variable("count", "i4", (NY, NX), dims=("lat", "lon"))[...] = np.arange(NY * NX).reshape(
            NY, NX
        )
        with c.writer() as w:
            for step in STEPS:
                with w.step(step):
                    w.put("T", field(step))
                    if step < 5:
                        w.put("q", np.stack([field(step) * 10.0 + z for z in range(3)]))
        c.commit()
        with Server(c).start() as server:
            yield c, server


@pytest.fixture
def page(gappy, window, tmp_path):
    window.problems.clear()
    window.resize(1400, 900)
    window.downloads(tmp_path)
    window.open("about:blank")
    window.open(gappy[1].url)
    window.wait("document.body?.dataset.ready === 'yes'")
    yield window
    assert not window.problems
    window.resize(1280, 860)


def show(page, name, query=""):
    page.run(f"location.hash = {json.dumps(f'#{name}{query}')}")
    page.wait(f"document.querySelector('h1')?.textContent === {json.dumps(name)}")


def saved(page, folder, kind, name, within=""):
    page.run(f"document.querySelector('{within} [data-save={kind}]').click()")
    path = folder / f"{name}.{kind.lower()}"
    page.wait_for(lambda: path.exists() and path.stat().st_size > 0)
    return path.read_bytes()


def test_values_are_saved_as_they_are_shown(page, tmp_path):
    show(page, "T")
    page.wait("document.querySelector('#image')?.dataset.shows === '9,0,0'")
    found = np.load(io.BytesIO(saved(page, tmp_path, "npy", "run7-T-9")))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, field(9))
    rows = list(csv.reader(io.StringIO(saved(page, tmp_path, "CSV", "run7-T-9").decode())))
    assert rows[0][0] == "lat\\lon"
    np.testing.assert_array_equal(np.array(rows[0][1:], "f8"), np.linspace(0, 19, NX))
    np.testing.assert_array_equal(np.array([row[0] for row in rows[1:]], "f8"), np.linspace(-33, 33, NY))
    texts = np.array([row[1:] for row in rows[1:]])
    assert texts[2, 3] == ""  # where there is no value
    texts[2, 3] = "nan"
    np.testing.assert_array_equal(texts.astype("f4"), field(9))


def test_a_part_that_is_shown_is_the_part_that_is_saved(page, tmp_path):
    show(page, "T", '?index=[4,0,0]&shown=[1,2]&region={"1":[2,7],"2":[5,15]}&mode=image')
    page.wait("document.querySelector('#image')?.dataset.shows === '4,0,0'")
    found = np.load(io.BytesIO(saved(page, tmp_path, "npy", "run7-T-4")))
    np.testing.assert_array_equal(found, field(4)[2:7, 5:15])


def test_a_line_and_a_table_are_saved_with_their_coordinates(page, tmp_path):
    show(page, "T", "?index=[0,3,0]&shown=[2]&mode=line")
    page.wait("document.querySelector('#line')?.dataset.shows === '0,3,0'")
    rows = list(csv.reader(io.StringIO(saved(page, tmp_path, "CSV", "run7-T-0-3").decode())))
    assert rows[0] == ["lon", "T"]
    np.testing.assert_array_equal(np.array(rows[1:], "f8")[:, 1].astype("f4"), field(0)[3])
    show(page, "count", "?index=[0,0]&shown=[0,1]&mode=table")
    page.wait("!!document.querySelector('#table td')")
    assert page.run("document.querySelectorAll('.save').length") == 1
    rows = list(csv.reader(io.StringIO(saved(page, tmp_path, "CSV", "run7-count").decode())))
    np.testing.assert_array_equal(np.array(rows[1:])[:, 1:].astype("i4"), np.arange(NY * NX).reshape(NY, NX))


def test_the_picture_is_saved_as_pixels_and_as_a_drawing(page, tmp_path):
    show(page, "T")
    page.wait("document.querySelector('#image')?.dataset.shows === '9,0,0'")
    width, height = page.run(
        "(() => { const c = document.querySelector('#image'); return [c.clientWidth, c.clientHeight]; })()"
    )
    png = saved(page, tmp_path, "PNG", "run7-T-9")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 2 * width
    assert int.from_bytes(png[20:24], "big") == 2 * (height + 28)
    root = ET.fromstring(saved(page, tmp_path, "SVG", "run7-T-9"))
    assert (int(root.get("width")), int(root.get("height"))) == (width, height + 28)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0].startswith("T  ·  step ")
    assert {"lat (cell)", "lon (cell)"} <= set(texts) or {"lat", "lon"} <= set(texts)
    assert "K" in texts  # beside the colours
    (image,) = root.iter(f"{SVG}image")
    href = image.get("href")
    assert href.startswith("data:image/png;base64,")
    # Its pixels are the values: one for each cell.
    size = page.run(
        "new Promise((done) => { const i = new Image(); i.onload = () => done([i.naturalWidth, i.naturalHeight]);"
        f" i.src = {json.dumps(href)}; }})"
    )
    assert size == [NX, NY]


def test_the_map_of_blocks_is_saved_as_a_picture_and_a_table(page, gappy, tmp_path):
    show(page, "q", "?tab=layout")
    page.wait("!!document.querySelector('#map')?.clientWidth && !!document.querySelector('[data-save=SVG]')")
    width, height = page.run(
        "(() => { const c = document.querySelector('#map'); return [c.clientWidth, c.clientHeight]; })()"
    )
    png = saved(page, tmp_path, "PNG", "run7-q-blocks-4-1")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 2 * width
    assert int.from_bytes(png[20:24], "big") == 2 * (height + 28)
    root = ET.fromstring(saved(page, tmp_path, "SVG", "run7-q-blocks-4-1"))
    assert (int(root.get("width")), int(root.get("height"))) == (width, height + 28)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0] == "q  ·  blocks  ·  step 4  ·  z 1"
    assert {"lat (cell)", "lon (cell)"} <= set(texts)
    rows = list(csv.DictReader(io.StringIO(saved(page, tmp_path, "CSV", "run7-q-blocks-4-1").decode())))
    (block,) = gappy[0]["q"].blocks(4)
    assert [(int(row["put"]), int(row["stored"]), int(row["begin"])) for row in rows] == [
        (block.put, block.nbytes, block.place[1])
    ]
    assert [int(rows[0][f"cells {dim}"]) for dim in ("z", "lat", "lon")] == [3, NY, NX]
    assert float(rows[0]["highest"]) == block.max


def test_a_second_variable_follows_the_first(page, gappy, tmp_path):
    c, _ = gappy
    show(page, "T", "?index=[4,0,0]&shown=[1,2]&mode=image")
    page.wait("document.querySelector('#image')?.dataset.shows === '4,0,0'")
    page.wait("[...document.querySelectorAll('#beside option')].some((one) => one.value === 'q')")
    assert page.run("[...document.querySelectorAll('#beside option')].map((one) => one.value)") == [
        "",
        "T",
        "count",
        "q",
    ]
    page.choose("#beside", "q")
    page.wait("document.querySelector('#beside-image')?.dataset.shows === '4,0,0,0'")
    # Side by side, on one line.
    (left, top, width, _), (second, beside_top, *_) = page.box(".pair > :first-child"), page.box(".beside")
    assert second >= left + width
    assert abs(top - beside_top) < 2
    # Its own axis has a slider; the steps are those of the first.
    page.choose("#beside-axis-1", "2")
    page.wait("document.querySelector('#beside-image')?.dataset.shows === '4,2,0,0'")
    found = np.load(io.BytesIO(saved(page, tmp_path, "npy", "run7-q-4-2", ".beside")))
    np.testing.assert_array_equal(found, c["q"][4, 2])
    page.choose("#axis-0", "1")
    page.wait("document.querySelector('#beside-image')?.dataset.shows === '1,2,0,0'")
    # The cross hair of one is that of the other.
    page.run("document.querySelector('#image').focus()")
    page.press("ArrowRight")
    row, column = json.loads(page.wait("document.querySelector('#cell')?.textContent"))[1:]
    value = c["q"][1, 2, row, column]
    assert float(page.wait("document.querySelector('#beside-under')?.textContent")) == value
    # A part of one is the part of the other, and the address keeps it all.
    page.press("+")
    page.wait("!!document.querySelector('#whole')")
    page.wait("document.querySelector('#beside-image')?.dataset.shows === '1,2,0,0'")
    found = np.load(io.BytesIO(saved(page, tmp_path, "npy", "run7-q-1-2", ".beside")))
    region = json.loads(page.run("new URLSearchParams(location.hash.split('?')[1]).get('region')"))
    np.testing.assert_array_equal(found, c["q"][1, 2][slice(*region["1"]), slice(*region["2"])])
    assert page.run("new URLSearchParams(location.hash.split('?')[1]).get('beside')") == "q"
    page.click("#apart")
    page.wait("!document.querySelector('.beside')")


def test_one_that_has_not_the_step_says_so(page):
    show(page, "T", "?index=[5,0,0]&shown=[1,2]&mode=image&beside=q")
    page.wait("document.querySelector('#beside-note')?.textContent.includes('Step 5 of q is missing')")
    assert page.run(
        "[...document.querySelectorAll('#beside-note button')].map((one) => one.textContent)"
    ) == ["step 4"]
    assert page.run("document.querySelector('#beside-image').hidden")


def test_a_missing_step_is_a_sentence_and_a_gap_on_the_slider(page, gappy, tmp_path):
    show(page, "T", "?index=[2,0,0]&shown=[1,2]&mode=image")
    page.wait("document.querySelector('#note')?.textContent.includes('Step 2 of T is missing')")
    assert page.run("document.querySelector('#image').hidden")
    said = page.run("document.querySelector('.gaps').getAttribute('aria-label')")
    assert said == "5 steps missing: 2 to 3, 6 to 8"
    assert "gradient" in page.run("getComputedStyle(document.querySelector('.gaps')).backgroundImage")
    assert page.run("[...document.querySelectorAll('.to-step')].map((one) => one.textContent)") == [
        "step 1",
        "step 4",
    ]
    page.run("document.querySelectorAll('.to-step')[1].click()")
    page.wait(
        "document.querySelector('#image')?.dataset.shows === '4,0,0' && !document.querySelector('#image').hidden"
    )
    assert page.run("document.querySelector('#axis-0').value") == "4"
    # Along the steps a gap is a gap, and not the fill value.
    show(page, "T", "?index=[0,3,4]&shown=[0]&mode=line")
    page.wait("document.querySelector('#line')?.dataset.shows === '0,3,4'")
    assert "5 steps of these are missing: 2 to 3, 6 to 8" in page.text("#note")
    found = np.load(io.BytesIO(saved(page, tmp_path, "npy", "run7-T-3-4")))
    assert np.flatnonzero(np.isnan(found)).tolist() == [2, 3, 6, 7, 8]
    np.testing.assert_array_equal(found[list(STEPS)], gappy[0]["T"][list(STEPS), 3, 4])


def test_playing_passes_over_what_is_missing(page):
    show(page, "T", "?index=[1,0,0]&shown=[1,2]&mode=image")
    page.wait("document.querySelector('#image')?.dataset.shows === '1,0,0'")
    page.run(
        "window.seen = []; new MutationObserver(() => { const at = document.querySelector('#image').dataset.shows; if (at) window.seen.push(at); })"
        ".observe(document.querySelector('#image'), {attributes: true, attributeFilter: ['data-shows']})"
    )
    page.run("document.querySelector('.sliders button').click()")
    page.wait("window.seen.includes('9,0,0')")
    page.run("document.querySelector('.sliders button').click()")
    assert [one for one in page.run("window.seen") if one != "1,0,0"][:3] == ["4,0,0", "5,0,0", "9,0,0"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pair_fits_a_narrow_window(page, scheme):
    page.resize(420, 860)
    page.prefer(scheme)
    show(page, "T", "?index=[4,0,0]&shown=[1,2]&mode=image&beside=q")
    page.wait("document.querySelector('#beside-image')?.dataset.shows === '4,0,0,0'")
    assert page.run("document.documentElement.scrollWidth") <= 420
    assert (
        page.run(
            "Math.max(...[...document.querySelectorAll('.card, button, select, input')].filter((one) => one.offsetParent).map((one) => one.getBoundingClientRect().right))"
        )
        <= 420
    )
    assert page.box(".pair > :first-child")[0] == page.box(".beside")[0]
    page.prefer("light")
