// Values of a variable: a plane as an image, a line, or a table; sliders for the axes that are not shown.

import { ask, askPicture, newest, Refused } from "./ask.js";
import { Axis } from "./axis.js";
import { Beside, choice } from "./beside.js";
import { NAMES } from "./colours.js";
import { el, facts, option, replace } from "./dom.js";
import { ImageView } from "./image.js";
import { histogram, LineView } from "./line.js";
import { fileName, saves } from "./save.js";
import { Steps } from "./steps.js";
import { bytes, count, ordinal, place, short, value } from "./text.js";

const DRAWN = "biufV";
const kept = { colours: "viridis", square: true }; // settings kept from variable to variable

export class Values {
  // `app` has remember(), problem() and open().
  constructor(app, v, state) {
    Object.assign(this, { app, v, state });
    this.axes = v.shape.map((length, n) => new Axis(n, v.axes[n], length, v.coordinates[n]));
    this.steps = new Steps(v);
    this.question = newest();
    this.profileQuestion = newest();
    this.hitsQuestion = newest();
    this.limit = undefined;
    this.settle();
    this.root = el("div", { className: "values" });
    this.build();
    this.load();
  }

  get drawable() { return (DRAWN.includes(this.v.element) && this.v.dtype !== "record") || this.v.element === "c"; }

  // Completes the state with defaults for the variable.
  settle() {
    const { v, state } = this;
    const long = this.axes.filter((axis) => axis.length > 1).map((axis) => axis.number);
    const own = long.filter((axis) => !(v.has_steps && !v.local && axis === 0));
    const fits = state.index?.length === v.shape.length;
    if (!fits) {
      state.index = v.shape.map((n, axis) => (v.has_steps && !v.local && axis === 0 ? Math.max(0, n - 1) : 0));
      state.shown = own.length >= 2 ? own.slice(-2) : long.length >= 2 ? long.slice(-2) : long.length ? long : this.axes.slice(-1).map((axis) => axis.number);
      state.region = {};
      state.pin = null;
      state.mode = !this.drawable || !v.shape.length ? "table" : state.shown.length === 2 ? "image" : "line";
    }
    state.region ??= {};
    state.index = state.index.map((at, axis) => Math.max(0, Math.min(at, v.shape[axis] - 1)));
    for (const axis of Object.keys(state.region)) if (state.region[axis][1] > v.shape[axis]) delete state.region[axis];
    if (state.mode === "image" && state.shown.length < 2) state.shown = this.axes.slice(-2).map((axis) => axis.number);
    if (state.mode === "line") state.shown = state.shown.slice(-1);
    state.pin ??= null;
    state.low ??= null;
    state.high ??= null;
    state.scale ??= "linear";
    state.part ??= "re";
    state.plain ??= false;
    state.where ??= "";
    state.beside ??= null;
  }

  build() {
    const { v, state } = this;
    this.picture = null;
    this.cells = null;
    this.image = this.line = null;
    this.stage = el("div", { className: "card" });
    this.readout = el("div", { className: "readout", id: "readout", "aria-live": "polite" });
    this.sliders = el("div", { className: "sliders" });
    this.note = el("p", { className: "note", id: "note" });
    this.below = el("div", { className: "card", hidden: true });
    this.side = el("div", { className: "side" });
    if (state.mode === "image") {
      this.image = new ImageView({
        hovered: (cross) => this.hovered(cross),
        picked: (cell) => this.pick(cell),
        narrowed: (spans) => this.narrow(spans),
        widened: () => this.widen(),
      });
      this.image.canvas.setAttribute("aria-describedby", "readout");
      this.view = this.image.canvas;
    } else if (state.mode === "line") {
      this.line = new LineView({ tall: true, hovered: (cell) => this.alongLine(cell) });
      this.view = this.line.canvas;
    } else this.view = el("div", { className: "scroll grid", id: "table", tabIndex: 0 });
    this.beside = state.beside && state.mode !== "table" ? new Beside(this) : null;
    const controls = this.controls();
    // Beside another picture, both have a name above and the same height.
    const head = this.beside ? el("div", { className: "row heading" }, el("h2", { className: "name" }, this.name)) : controls;
    this.saves = v.shape.length ? saves(this) : el("div", {});
    replace(this.stage, head, this.view, state.mode === "table" ? null : this.readout, this.sliders, this.note, this.saves);
    this.drawSliders();
    const shown = this.beside ? [el("div", { className: "card" }, controls), el("div", { className: "pair" }, this.stage, this.beside.root)] : this.stage;
    replace(this.root, el("div", { className: "side" }, shown, this.below), state.mode === "table" ? null : this.side);
    if (state.mode === "table") this.root.style.gridTemplateColumns = "minmax(0, 1fr)";
    else this.root.style.gridTemplateColumns = "";
    this.drawSide();
  }

  rebuild() { this.build(); this.load(); }

  // What each axis of the picture shows.
  controls() {
    const { v, state } = this;
    const row = el("div", { className: "row", style: { marginBottom: "8px" } });
    if (v.members.length) {
      row.append(el("label", { className: "field" }, "member ", el("select", { id: "member", onchange: (event) => this.app.open(v.name, { member: event.target.value }) },
        option("", "whole record", !v.member), v.members.map((member) => option(member.name, `${member.name} (${member.dtype})`, member.name === v.member)))));
    }
    if (v.blocks) {
      row.append(el("label", { className: "field" }, "block ", el("select", { id: "block", onchange: (event) => this.app.open(v.name, { member: v.member, block: event.target.value, step: state.step }) },
        v.blocks.map((block, n) => option(n, `${n}: writer ${block.writer.replace(/^0+(?=.{6})/, "")}, ${block.shape.join(" × ") || "one value"}`, String(n) === String(state.block ?? 0))))));
      if (v.has_steps) row.append(el("label", { className: "field" }, "step ", el("select", { id: "step", onchange: (event) => this.app.open(v.name, { member: v.member, step: event.target.value }) },
        v.steps.map((step) => option(step, step, String(step) === String(state.step ?? v.steps[v.steps.length - 1]))))));
    }
    if (!v.shape.length) return row;
    const modes = [this.drawable && v.shape.length > 1 ? ["image", "image"] : null, this.drawable ? ["line", "line"] : null, ["table", "table"]].filter(Boolean);
    row.append(el("div", { className: "row", role: "group", "aria-label": "Show as" }, modes.map(([mode, text]) => el("button", {
      type: "button", "data-mode": mode, "aria-pressed": String(state.mode === mode), onclick: () => {
        state.mode = mode;
        if (mode !== "line" && state.shown.length < 2 && this.axes.length > 1) {
          const other = this.axes.map((axis) => axis.number).filter((axis) => axis !== state.shown[0] && this.v.shape[axis] > 1).pop() ?? (state.shown[0] ? 0 : 1);
          state.shown = [other, state.shown[0]].sort((a, b) => a - b);
        }
        this.settle();
        this.rebuild();
      },
    }, text))));
    const names = state.shown.length === 2 ? ["down", "across"] : ["along"];
    if (this.axes.length > 1) {
      names.forEach((name, n) => row.append(el("label", { className: "field" }, `${name} `, el("select", {
        id: name, onchange: (event) => {
          const axis = Number(event.target.value);
          const other = state.shown.indexOf(axis);
          if (other >= 0 && other !== n) state.shown[other] = state.shown[n];
          state.shown[n] = axis;
          this.rebuild();
        },
      }, this.axes.map((axis) => option(axis.number, `${axis.name} (${axis.length})`, axis.number === state.shown[n]))))));
    }
    if (state.mode === "image" && !v.local) {
      row.append(el("div", { className: "field where" },
        el("label", { htmlFor: "condition" }, "where "),
        this.where = el("input", { type: "text", id: "condition", value: state.where, onchange: (event) => { state.where = event.target.value.trim(); this.app.remember(); this.mark(); }, placeholder: `${v.name}${v.member ? `.${v.member}` : ""} > …`, spellcheck: false, autocomplete: "off", title: "A condition, as for queries; Enter shows where it holds" }),
        this.found = el("output", { id: "hits", htmlFor: "condition" })));
    }
    if (Object.keys(state.region).length) row.append(el("button", { type: "button", id: "whole", onclick: () => this.widen() }, "Show the whole"));
    return row;
  }

  drawSliders() {
    const { state } = this;
    const rows = this.axes.filter((axis) => !state.shown.includes(axis.number) && axis.length > 1).map((axis) => {
      const id = `axis-${axis.number}`;
      const set = (to) => {
        const at = Math.max(0, Math.min(axis.length - 1, Math.round(Number(to)) || 0));
        state.index[axis.number] = at;
        range.value = at;
        number.value = at;
        output.textContent = axis.coordinate ? axis.at(at) : "";
        return this.load();
      };
      const range = el("input", { type: "range", id, min: 0, max: axis.length - 1, value: state.index[axis.number], oninput: (event) => set(event.target.value) });
      const number = el("input", { type: "number", id: `${id}-number`, min: 0, max: axis.length - 1, value: state.index[axis.number], "aria-label": `${axis.name}: number`, onchange: (event) => set(event.target.value) });
      const output = el("output", { htmlFor: id }, axis.coordinate ? axis.at(state.index[axis.number]) : "");
      const play = el("button", { type: "button", title: `Play along ${axis.name}`, "aria-label": `Play along ${axis.name}`, onclick: () => this.play(axis, play, set) }, "▶");
      const gaps = axis.number === 0 && this.steps.number ? this.steps.strip() : null;
      return [el("label", { htmlFor: id }, axis.name), el("div", { className: "track" }, range, gaps), number, output, play];
    });
    replace(this.sliders, rows);
    this.sliders.hidden = !rows.length;
  }

  async play(axis, button, set) {
    if (this.playing) { this.playing = null; return; }
    const mine = {};
    this.playing = mine;
    button.textContent = "■";
    while (this.playing === mine && this.root.isConnected) {
      const began = performance.now();
      const next = (this.state.index[axis.number] + 1) % axis.length;
      // Missing steps are skipped.
      await set(axis.number === 0 && this.steps.lacks(next) ? this.steps.next(next, 1) ?? this.steps.next(-1, 1) ?? next : next);
      await new Promise((done) => { setTimeout(done, Math.max(16, 120 - (performance.now() - began))); });
    }
    button.textContent = "▶";
  }

  stop() { this.playing = null; this.question(async () => undefined); }

  spanOf(axis) { return this.state.region[axis] ?? [0, this.v.shape[axis]]; }

  // The shown position, and the query for it.
  query(more = {}) {
    const { v, state } = this;
    const parts = this.v.shape.map((n, axis) => (state.shown.includes(axis) && v.shape.length ? this.spanOf(axis) : state.index[axis]));
    return {
      name: v.name, member: v.member, block: v.local ? state.block ?? 0 : null, step: v.local ? state.step : null,
      place: place(parts), part: v.element === "c" ? state.part : null, plain: state.plain ? 1 : null, limit: this.limit, ...more,
    };
  }

  // Moves to a position along an axis.
  go(axis, to) {
    this.state.index[axis] = to;
    this.drawSliders();
    return this.load();
  }

  get drawing() { return this.image ?? this.line; }
  get name() { return this.v.member ? `${this.v.name}.${this.v.member}` : this.v.name; }
  get title() { return [this.name, ...this.axes.filter((axis) => !this.state.shown.includes(axis.number)).map((axis) => `${axis.name} ${axis.at(this.state.index[axis.number])}`)].join("  ·  "); }
  get fileName() { return this.nameOf(this.name, this.state.index, this.state.shown); }

  // The name for a file of the shown data: container, variable and position.
  nameOf(name, index, shown) {
    const at = index.filter((_, axis) => !shown.includes(axis)).join("-");
    return fileName(name, at);
  }

  async load() {
    const { state } = this;
    this.app.remember();
    this.beside?.follow();
    if (this.v.shape.some((n) => n === 0)) {
      this.reveal(false);
      replace(this.note, `the array is empty: ${this.v.shape.join(" × ")}`);
      return;
    }
    if (this.steps.lacks(state.index[0]) && !state.shown.includes(0)) {
      this.question(async () => undefined);
      this.picture = this.cells = null;
      this.below.hidden = true;
      this.reveal(false);
      delete this.view.dataset.shows;
      replace(this.note, this.steps.sentence(this.name, state.index[0], (step) => this.go(0, step)));
      if (this.facts) replace(this.facts);
      this.app.problem(null);
      return;
    }
    this.view.classList.add("busy");
    try {
      if (state.mode === "table") {
        const found = await this.question((signal) => ask("texts", this.query(), signal));
        if (found) this.showTable(found);
      } else {
        const down = state.mode === "image" ? state.shown[0] : null;
        const found = await this.question((signal) => askPicture(this.query({ down, most: state.mode === "image" ? 1024 : 2048 }), signal));
        if (found) this.showPicture(found);
      }
      this.app.problem(null);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.costly(error);
    } finally {
      this.view.classList.remove("busy");
    }
  }

  costly(error) {
    if (!error.costs) { this.app.problem(error.message); return; }
    this.reveal(Boolean(this.picture));
    const less = this.picture ? "Drag over a part, show fewer cells, or " : "Show fewer cells as a line or a table, or ";
    replace(this.note, `To show this, ${bytes(error.costs)} would be read. ${less}`,
      el("button", { type: "button", id: "anyway", onclick: () => { this.limit = error.costs * 2; this.load(); } }, "Read it anyway"));
  }

  // Without a picture, no space is reserved for it: the note would be below the window.
  reveal(there) { this.view.hidden = this.readout.hidden = this.saves.hidden = !there; }

  showTable({ cells, axes, starts, stops }) {
    const { v } = this;
    this.cells = { cells, axes, starts };
    this.reveal(true);
    const [down, across] = axes.map((axis) => this.axes[axis]);
    if (!axes.length) {
      replace(this.view, el("p", { className: "big", id: "value" }, cells[0][0]), this.v.units ? el("p", { className: "note" }, this.v.units) : null);
      return;
    }
    const head = across ? el("tr", {}, el("th", {}, `${down.name} \\ ${across.name}`), cells[0].map((_, n) => el("th", {}, across.at(starts[1] + n)))) : el("tr", {}, el("th", {}, down.name), el("th", {}, v.name));
    replace(this.view, el("table", {}, el("thead", {}, head), el("tbody", {}, cells.map((row, n) => el("tr", {}, el("th", {}, down.at(starts[0] + n)), row.map((cell) => el("td", {}, cell)))))));
    const shown = [cells.length, cells[0]?.length ?? 0];
    const more = axes.map((_, n) => stops[n] - starts[n] > shown[n]);
    replace(this.note, more.some(Boolean) ? `the first ${shown.slice(0, axes.length).join(" × ")} of ${axes.map((_, n) => stops[n] - starts[n]).join(" × ")} cells` : "");
  }

  showPicture(picture) {
    this.picture = picture;
    this.reveal(true);
    const { v, state } = this;
    const gaps = picture.absent ? `${count(picture.absent, "step")} of these ${picture.absent === 1 ? "is" : "are"} missing: ${this.steps.list()}. ` : "";
    const coarse = picture.strides.map((stride, n) => (stride > 1 ? `every ${ordinal(stride)} cell along ${this.axes[picture.axes[n]].name}` : null)).filter(Boolean);
    replace(this.note, gaps, coarse.length ? `${coarse.join(" and ")} is shown; drag over a part to see all of it` : "");
    const [low, high] = this.range();
    if (state.mode === "image") {
      const [down, across] = picture.axes.map((axis) => this.axes[axis]);
      this.image.pin = state.pin && picture.axes.map((axis) => state.pin[axis]);
      this.image.show(picture, [down, across], { ...this.look(picture), low, high, log: state.scale === "log", flip: down.upwards, label: v.units });
      this.hovered(this.image.cross);
      this.image.canvas.dataset.shows = place(state.index);
      this.mark();
    } else {
      this.line.show(picture, this.axes[picture.axes[0]], v.units || v.name, state.low === null ? null : [low, high]);
      this.line.canvas.dataset.shows = place(state.index);
    }
    this.drawFacts();
    this.beside?.paint();
    if (state.pin) this.profile();
  }

  // The appearance of images side by side.
  look({ starts, stops }) {
    const [rows, columns] = [0, 1].map((n) => stops[n] - starts[n]);
    return { colours: kept.colours, square: kept.square && Math.max(rows / columns, columns / rows) < 6 };
  }

  // Marks the cells of the picture that satisfy the condition.
  async mark() {
    const { state } = this;
    if (state.mode !== "image" || !this.picture || !this.where) return;
    if (!state.where) {
      this.image.mark(null);
      replace(this.found, "");
      return;
    }
    try {
      const query = this.query({ down: state.shown[0], most: 1024, where: state.where, plain: null, part: null });
      const hits = await this.hitsQuestion((signal) => askPicture(query, signal, "hits"));
      if (!hits) return;
      this.image.mark(hits);
      replace(this.found, `${count(hits.hits)} of ${count(hits.cells)} cells; ${bytes(hits.read)} in ${short(hits.seconds * 1000, 2)} ms`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.image.mark(null);
      replace(this.found, error.costs ? `this would read ${bytes(error.costs)}: drag over a part` : error.message);
    }
  }

  // The values at both ends of the colour map.
  range() {
    const { state, picture } = this;
    let low = state.low ?? picture.min ?? 0;
    let high = state.high ?? picture.max ?? 1;
    if (state.scale === "log" && !(low > 0)) {
      const least = picture.values.reduce((a, b) => (b > 0 && b < a ? b : a), Infinity);
      low = Number.isFinite(least) ? least : 1e-3;
      if (!(high > low)) high = low * 10;
    }
    return [low, high];
  }

  describe(parts) {
    return parts.map(([axis, cell]) => `${this.axes[axis].name} ${this.axes[axis].at(cell)}`).join("  ·  ");
  }

  hovered(cross) {
    this.beside?.point(cross);
    this.tell(cross);
  }

  // The cross hair at the position of the other picture's.
  point(cross) {
    if (!this.picture || (cross && cross.some((one, n) => one >= this.picture.shape[n]))) return;
    this.drawing.point(cross);
    if (this.state.mode === "image") this.tell(cross); else this.tellLine(cross && cross[0]);
  }

  tell(cross) {
    const { picture, state } = this;
    if (!picture) return;
    if (!cross) {
      const said = state.mode === "image" ? "Point at a cell for its value; click for its profile; drag to see a part." : "Point at the line for its values.";
      replace(this.readout, el("span", { className: "at" }, said));
      return;
    }
    const number = picture.values[cross[0] * picture.shape[1] + cross[1]];
    const cell = [...state.index];
    picture.axes.forEach((axis, n) => { cell[axis] = picture.starts[n] + cross[n] * picture.strides[n]; });
    replace(this.readout, el("span", { className: "figure", id: "under" }, `${Number.isNaN(number) ? "missing" : value(number, picture.dtype === "f4")}`),
      el("span", {}, Number.isNaN(number) ? "" : this.v.units), el("span", { className: "at" }, this.describe(picture.axes.map((axis) => [axis, cell[axis]]))), el("span", { className: "at", id: "cell" }, `[${cell.join(", ")}]`));
  }

  alongLine(at) {
    this.beside?.point(at === null ? null : [at]);
    this.tellLine(at);
  }

  tellLine(at) {
    if (!this.picture) return;
    if (at === null) { this.tell(null); return; }
    const { picture, state } = this;
    const cell = [...state.index];
    cell[picture.axes[0]] = this.line.cellOf(at);
    const number = picture.values[at];
    replace(this.readout, el("span", { className: "figure", id: "under" }, Number.isNaN(number) ? "missing" : value(number, picture.dtype === "f4")),
      el("span", {}, this.v.units), el("span", { className: "at" }, this.describe([[picture.axes[0], cell[picture.axes[0]]]])), el("span", { className: "at", id: "cell" }, `[${cell.join(", ")}]`));
  }

  narrow(spans) {
    this.state.shown.forEach((axis, n) => { if (spans[n][1] - spans[n][0] >= 1) this.state.region[axis] = spans[n]; });
    this.rebuild();
    this.view.focus();
  }

  widen() {
    this.state.region = {};
    this.rebuild();
    this.view.focus();
  }

  // A cell was selected: shows its exact value, and the values through it along an axis.
  pick(cell) {
    const { state } = this;
    const pin = [...state.index];
    state.shown.forEach((axis, n) => { pin[axis] = cell[n]; });
    state.pin = pin;
    this.image.pin = cell;
    this.image.canvas.repaint();
    this.beside?.paint();
    const long = this.axes.filter((axis) => axis.length > 1).map((axis) => axis.number);
    state.along ??= long.find((axis) => !state.shown.includes(axis)) ?? state.shown[1];
    this.profile();
    this.app.remember();
  }

  async profile() {
    const { v, state } = this;
    const pin = state.pin.map((at, axis) => (state.shown.includes(axis) ? at : state.index[axis]));
    const along = this.axes[state.along] ?? this.axes[0];
    const base = { ...this.query(), limit: this.limit };
    try {
      const found = await this.profileQuestion(async (signal) => [
        await askPicture({ ...base, most: 2048, place: place(pin.map((at, axis) => (axis === along.number ? [0, v.shape[axis]] : at))) }, signal),
        await ask("texts", { ...base, place: place(pin) }, signal),
      ]);
      if (!found) return;
      const [picture, exact] = found;
      if (!this.profileLine) this.profileLine = new LineView({ id: "profile" });
      const choice = el("label", { className: "field" }, "along ", el("select", { id: "through", onchange: (event) => { state.along = Number(event.target.value); this.profile(); } },
        this.axes.filter((axis) => axis.length > 1).map((axis) => option(axis.number, axis.name, axis.number === along.number))));
      this.below.hidden = false;
      replace(this.below, el("div", { className: "row" }, el("h2", { style: { margin: 0 } }, "Through the cell"), el("span", { id: "exact" }, `[${pin.join(", ")}] = ${exact.cells[0][0]}`), el("span", { className: "spring" }), choice,
        el("button", { type: "button", "aria-label": "Close the profile", onclick: () => { state.pin = null; this.image.pin = null; this.image.canvas.repaint(); this.beside?.paint(); this.below.hidden = true; } }, "✕")), this.profileLine.canvas);
      this.profileLine.show(picture, along, v.units || v.name, null, pin[along.number]);
      this.profileLine.canvas.dataset.shows = place(pin);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.app.problem(error.costs ? `the profile would read ${bytes(error.costs)}: along another axis it takes less` : error.message);
    }
  }

  drawSide() {
    const { v, state } = this;
    this.facts = el("div", {});
    if (state.mode === "table") return;
    const look = () => { if (this.picture) this.showPicture(this.picture); };
    const ends = (name) => el("input", { type: "number", step: "any", id: name, "aria-label": `${name === "low" ? "lowest" : "highest"} value`, onchange: (event) => {
      if (this.picture && state.low === null) [state.low, state.high] = this.range();
      state[name] = event.target.value === "" ? null : Number(event.target.value);
      if (state[name] === null) { state.low = null; state.high = null; }
      this.app.remember();
      look();
    } });
    this.low = ends("low");
    this.high = ends("high");
    const range = (pick) => () => { if (this.picture) { [state.low, state.high] = pick(); this.app.remember(); look(); } };
    const image = state.mode === "image";
    replace(this.side,
      el("div", { className: "card controls" },
        image ? el("label", { className: "field" }, "colours", el("select", { id: "colours", onchange: (event) => { kept.colours = event.target.value; look(); } }, NAMES.map((name) => option(name, name, name === kept.colours)))) : null,
        image ? el("label", { className: "field" }, "scale", el("select", { id: "scale", onchange: (event) => { state.scale = event.target.value; look(); } }, ["linear", "log"].map((name) => option(name, name, name === state.scale)))) : null,
        v.element === "c" ? el("label", { className: "field" }, "part", el("select", { id: "part", onchange: (event) => { state.part = event.target.value; state.low = null; state.high = null; this.load(); } },
          [["re", "real"], ["im", "imaginary"], ["abs", "magnitude"], ["phase", "phase"]].map(([name, text]) => option(name, text, name === state.part)))) : null,
        el("label", { className: "field" }, "highest", this.high), el("label", { className: "field" }, "lowest", this.low),
        el("div", { className: "row" },
          el("button", { type: "button", id: "auto", title: "The ends of each picture's values", onclick: range(() => [null, null]) }, "auto"),
          el("button", { type: "button", id: "hold", title: "Keep this range for other places", onclick: range(() => this.range()) }, "hold"),
          el("button", { type: "button", id: "most", title: "Leave out 2 % at each end", onclick: range(() => percentiles(this.picture.values)) }, "2–98 %")),
        image ? el("label", { className: "check" }, el("input", { type: "checkbox", id: "square", checked: kept.square, onchange: (event) => { kept.square = event.target.checked; look(); } }), " cells are square") : null,
        v.local ? null : el("label", { className: "field", title: "A second variable at the same place" }, "beside", this.second()),
        v.packed || v.fill !== null || v.attributes.some((one) => /^(_FillValue|missing_value)$/.test(one.name))
          ? el("label", { className: "check", title: "Neither unpack values nor leave out those that stand for nothing" }, el("input", { type: "checkbox", id: "plain", checked: state.plain, onchange: (event) => { state.plain = event.target.checked; this.load(); } }), " values as stored") : null),
      el("div", { className: "card" }, el("h2", {}, image ? "In this picture" : "In this line"), this.facts));
  }

  // The list for a second variable.
  second() {
    const { state } = this;
    const names = el("select", { id: "beside", onchange: (event) => { Object.assign(state, { beside: event.target.value || null, besideMember: null, besideOwn: null }); this.rebuild(); } }, option(state.beside ?? "", state.beside ?? "nothing", true));
    choice(this).then((found) => replace(names, found)).catch((error) => { if (!(error instanceof Refused)) throw error; });
    return names;
  }

  drawFacts() {
    const { picture, state } = this;
    const [low, high] = this.range();
    if (document.activeElement !== this.low) this.low.value = short(low, 7);
    if (document.activeElement !== this.high) this.high.value = short(high, 7);
    this.root.querySelector("#auto").setAttribute("aria-pressed", String(state.low === null && state.high === null));
    const other = picture.nans - picture.left_out - picture.absent_cells;
    replace(this.facts, facts([
      ["cells", count(picture.count)],
      ["missing", picture.left_out ? count(picture.left_out) : null],
      ["steps missing", picture.absent ? count(picture.absent) : null],
      ["NaN", other ? count(other) : null],
      ["infinite", picture.infinities ? count(picture.infinities) : null],
      ["lowest", short(picture.min, 6)],
      ["highest", short(picture.max, 6)],
      ["mean", short(picture.mean, 6)],
      ["deviation", short(picture.deviation, 6)],
      ["read", `${bytes(picture.read)} in ${short(picture.seconds * 1000, 2)} ms`],
    ]), picture.counts.length > 1 ? histogram(picture.edges, picture.counts) : null);
  }
}

function percentiles(values) {
  const finite = Float64Array.from(values.filter(Number.isFinite)).sort();
  if (!finite.length) return [null, null];
  const at = (part) => finite[Math.round(part * (finite.length - 1))];
  return at(0.98) > at(0.02) ? [at(0.02), at(0.98)] : [null, null];
}
