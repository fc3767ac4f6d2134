// A second variable beside the first, at the same position: it follows the axes that both have.

import { ask, askPicture, newest, Refused } from "./ask.js";
import { Axis } from "./axis.js";
import { el, option, replace } from "./dom.js";
import { ImageView } from "./image.js";
import { LineView } from "./line.js";
import { saves } from "./save.js";
import { Steps } from "./steps.js";
import { bytes, place, value } from "./text.js";

const GENERIC = /^(axis|dim)[ _]?\d+$/;
const TEXTS = /^(\||<U|<S|str|object)/;
const MOST = 1000; // names in the list

// The list of variables whose cells match those that `lead` shows.
export async function choice(lead) {
  const { v, state } = lead;
  const lengths = state.shown.map((axis) => v.shape[axis]);
  const fits = ({ shape, local, dtype }) => {
    if (local || !shape || TEXTS.test(dtype)) return false;
    const left = [...shape];
    return lengths.every((n) => { const at = left.lastIndexOf(n); if (at >= 0) left.splice(at, 1); return at >= 0; });
  };
  const { variables } = await ask("tree");
  const names = variables.filter(fits).map((one) => one.name).slice(0, MOST);
  return [option("", "nothing", !state.beside), names.map((name) => option(name, name === v.name ? `${name} (again)` : name, name === state.beside))];
}

export class Beside {
  constructor(lead) {
    this.lead = lead;
    this.app = lead.app;
    this.question = newest();
    this.root = el("div", { className: "card beside" });
    this.open();
  }

  async open() {
    const { state } = this.lead;
    try {
      let found = await ask("variable", { name: state.beside, member: state.besideMember });
      if (found.kind === "variable" && found.members.length && !found.member) {
        state.besideMember = (found.members.find((one) => !TEXTS.test(one.dtype)) ?? found.members[0]).name;
        found = await ask("variable", { name: state.beside, member: state.besideMember });
      }
      this.v = found;
      this.build();
      this.follow();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(this.root, this.heading(state.beside), el("p", { className: "note bad" }, error.message));
    }
  }

  heading(name) {
    return el("div", { className: "row heading" }, el("h2", { className: "name" }, name), el("span", { className: "spring" }),
      this.v?.members?.length ? el("label", { className: "field" }, "member ", el("select", { id: "beside-member", onchange: (event) => { this.lead.state.besideMember = event.target.value; this.open(); } },
        this.v.members.map((one) => option(one.name, `${one.name} (${one.dtype})`, one.name === this.v.member)))) : null,
      el("label", { className: "check field", title: "Colours of both pictures between the same values" }, el("input", { type: "checkbox", id: "common", checked: Boolean(this.lead.state.common), onchange: (event) => { this.lead.state.common = event.target.checked; this.app.remember(); this.paint(); } }), " one range"),
      el("button", { type: "button", id: "apart", title: "Show the first variable alone", "aria-label": "Close", onclick: () => { Object.assign(this.lead.state, { beside: null, besideMember: null, besideOwn: null, common: null }); this.lead.rebuild(); } }, "✕"));
  }

  build() {
    const { v, lead } = this;
    this.axes = v.shape.map((length, n) => new Axis(n, v.axes[n], length, v.coordinates[n]));
    this.steps = new Steps(v);
    this.from = linked(this, lead);
    const { besideOwn } = lead.state;
    this.own = v.shape.map((n, axis) => (besideOwn?.length === v.shape.length ? Math.max(0, Math.min(besideOwn[axis], n - 1)) : this.stepAxis === axis ? n - 1 : 0));
    this.shown = lead.state.shown.map((axis) => this.from.indexOf(axis));
    this.readout = el("div", { className: "readout", id: "beside-readout" });
    this.note = el("p", { className: "note", id: "beside-note" });
    const image = lead.state.mode === "image";
    this.drawing = image
      ? new ImageView({ id: "beside-image", hovered: (cross) => this.hovered(cross), picked: (cell) => lead.pick(cell), narrowed: (spans) => lead.narrow(spans), widened: () => lead.widen() })
      : new LineView({ id: "beside-line", tall: true, hovered: (cell) => this.hovered(cell === null ? null : [cell]) });
    const { canvas } = this.drawing;
    canvas.setAttribute("aria-describedby", "beside-readout");
    replace(this.root, this.heading(this.name), canvas, this.readout, el("div", { className: "sliders planes" }, this.sliders()), this.note, this.saves = saves(this));
  }

  get stepAxis() { return this.v.has_steps && !this.v.local ? 0 : null; }
  get name() { return this.v.member ? `${this.v.name}.${this.v.member}` : this.v.name; }
  get title() { return [this.name, ...this.index().map((cell, axis) => (this.shown.includes(axis) ? null : `${this.axes[axis].name} ${this.axes[axis].at(cell)}`)).filter(Boolean)].join("  ·  "); }
  get fileName() { return this.lead.nameOf(this.name, this.index(), this.shown); }

  // The axes that the first variable lacks.
  sliders() {
    return this.axes.filter((axis) => this.from[axis.number] === null && axis.length > 1).map((axis) => {
      const id = `beside-axis-${axis.number}`;
      const said = el("output", { htmlFor: id }, axis.at(this.own[axis.number]));
      const range = el("input", { type: "range", id, min: 0, max: axis.length - 1, value: this.own[axis.number], oninput: (event) => { this.place(axis.number, Number(event.target.value)); said.textContent = axis.at(this.own[axis.number]); this.follow(); } });
      return [el("label", { htmlFor: id }, axis.name), range, said];
    });
  }

  index() { return this.from.map((axis, n) => (axis === null ? this.own[n] : this.lead.state.index[axis])); }

  // Moves to the position of the first variable.
  async follow() {
    const { v, lead } = this;
    if (!v) return;
    const { state } = lead;
    const lacking = state.shown.filter((_, n) => this.shown[n] < 0).map((axis) => `${lead.axes[axis].name} of ${lead.axes[axis].length}`);
    if (lacking.length) { this.say([`${this.name} has no axis ${lacking.join(" and no axis ")}: it cannot be shown at the same place.`]); return; }
    const index = this.index();
    const step = this.stepAxis === 0 && !this.shown.includes(0) ? index[0] : null;
    if (step !== null && this.steps.lacks(step)) { this.say(this.steps.sentence(this.name, step, (to) => (this.from[0] === null ? this.goOwn(to) : lead.go(this.from[0], to)))); return; }
    const parts = v.shape.map((_, axis) => (this.shown.includes(axis) ? lead.spanOf(this.from[axis]).map((one) => Math.min(one, v.shape[axis])) : index[axis]));
    try {
      const found = await this.question((signal) => askPicture({ name: v.name, member: v.member, place: place(parts), part: v.element === "c" ? state.part : null, plain: state.plain ? 1 : null, limit: this.limit, down: state.mode === "image" ? this.shown[0] : null, most: state.mode === "image" ? 1024 : 2048 }, signal));
      if (!found) return;
      this.picture = found;
      this.drawing.canvas.hidden = this.readout.hidden = this.saves.hidden = false;
      replace(this.note, "");
      this.paint();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.say(error.costs ? [`To show this, ${bytes(error.costs)} would be read. `, el("button", { type: "button", onclick: () => { this.limit = error.costs * 2; this.follow(); } }, "Read it anyway")] : [error.message]);
    }
  }

  // A position along an axis that only this variable has.
  place(axis, at) {
    this.own[axis] = at;
    this.lead.state.besideOwn = [...this.own];
    this.app.remember();
  }

  goOwn(step) { this.place(0, step); this.build(); this.follow(); }

  // A sentence instead of the picture.
  say(parts) {
    this.question(async () => undefined);
    this.picture = null;
    this.drawing.canvas.hidden = this.readout.hidden = this.saves.hidden = true;
    delete this.drawing.canvas.dataset.shows;
    replace(this.note, parts);
  }

  paint() {
    const { picture, lead } = this;
    if (!picture) return;
    const { state } = lead;
    const [low, high] = state.common && lead.picture ? lead.range() : [picture.min ?? 0, picture.max ?? 1];
    if (state.mode === "image") {
      const [down, across] = this.shown.map((axis) => this.axes[axis]);
      this.drawing.pin = state.pin && state.shown.map((axis) => state.pin[axis]);
      this.drawing.show(picture, [down, across], { ...lead.look(picture), low, high: high > low ? high : low + 1, log: state.scale === "log" && low > 0, flip: down.upwards, label: this.v.units });
    } else this.drawing.show(picture, this.axes[this.shown[0]], this.v.units || this.name, state.common && lead.picture ? [low, high] : null);
    this.drawing.canvas.dataset.shows = place(this.index());
    // After a repaint, the value under the pointer is still shown.
    this.tell(this.at?.every((one, n) => one < picture.shape[n]) ? this.at : null);
  }

  hovered(at) {
    this.tell(at);
    this.lead.point(at);
  }

  // The cross hair at the position of the first picture's.
  point(at) {
    if (!this.picture || (at && at.some((one, n) => one >= this.picture.shape[n]))) return;
    this.drawing.point(at);
    this.tell(at);
  }

  // The value under the pointer, else the one of the selected cell.
  tell(at) {
    this.at = at;
    const { picture, lead } = this;
    if (!picture) return;
    const { pin } = lead.state;
    const chosen = !at && pin ? lead.state.shown.map((axis, n) => Math.floor((pin[axis] - picture.starts[n]) / picture.strides[n])) : null;
    const cell = at ?? (chosen?.every((one, n) => one >= 0 && one < picture.shape[n]) ? chosen : null);
    if (!cell) { replace(this.readout, el("span", { className: "at" }, "It follows the first variable: place, part, step and cross hair.")); return; }
    const number = picture.values[cell.reduce((all, one, n) => all * picture.shape[n] + one, 0)];
    replace(this.readout, el("span", { className: "figure", id: "beside-under" }, Number.isNaN(number) ? "missing" : value(number, picture.dtype === "f4")), el("span", {}, this.v.units), el("span", { className: "at" }, at ? "" : "at the chosen cell"));
  }
}

// For each axis of the second variable, the axis of the first that it follows, or null. Steps follow steps;
// other axes follow the axis of their name and length. Unnamed axes follow by length, starting from the last.
function linked(beside, lead) {
  const taken = new Set();
  const from = beside.axes.map(() => null);
  const take = (mine, theirs) => { from[mine] = theirs; taken.add(theirs); };
  const leadSteps = lead.v.has_steps && !lead.v.local ? 0 : null;
  if (beside.stepAxis === 0 && leadSteps === 0) take(0, 0);
  for (const axis of beside.axes) {
    if (from[axis.number] !== null || axis.number === beside.stepAxis) continue;
    const found = lead.axes.find((one) => !taken.has(one.number) && one.number !== leadSteps && one.name === axis.name && one.length === axis.length);
    if (found) take(axis.number, found.number);
  }
  for (const axis of [...beside.axes].reverse()) {
    if (from[axis.number] !== null || axis.number === beside.stepAxis) continue;
    const found = [...lead.axes].reverse().find((one) => !taken.has(one.number) && one.number !== leadSteps && one.length === axis.length && (GENERIC.test(one.name) || GENERIC.test(axis.name)));
    if (found) take(axis.number, found.number);
  }
  return from;
}
