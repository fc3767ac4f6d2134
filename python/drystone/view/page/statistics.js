// Statistics of a whole step: those stored with it, and, on demand, those of values that are read.

import { ask, Refused } from "./ask.js";
import { el, facts, option, replace } from "./dom.js";
import { histogram } from "./line.js";
import { bytes, count, ordinal, short } from "./text.js";

function extreme(number, missing) { return `${short(number, 7)}${missing ? " (stands for nothing)" : ""}`; }

export class Statistics {
  constructor(app, v, state) {
    Object.assign(this, { app, v, state });
    this.root = el("div", {});
    this.step = v.has_steps ? (v.steps.includes(state.index?.[0]) ? state.index[0] : v.steps[v.steps.length - 1]) : null;
    this.load();
  }

  stop() {}

  async load() {
    const { v } = this;
    const chosen = v.has_steps ? el("div", { className: "row", style: { marginBottom: "10px" } }, el("label", { className: "field" }, "step ", el("select", { id: "statistics-step", onchange: (event) => { this.step = Number(event.target.value); this.load(); } },
      v.steps.map((one) => option(one, one, one === this.step))))) : null;
    const stored = el("div", { className: "card", id: "stored" }, el("h2", {}, "As stored with the blocks"));
    this.read = el("div", { className: "card", id: "sampled" }, el("h2", {}, "Of the values themselves"));
    replace(this.root, chosen, el("div", { className: "cards" }, stored, v.local ? null : this.read));
    try {
      const found = await ask("statistics", { name: v.name, member: v.member, step: this.step });
      stored.append(facts([["blocks", count(found.blocks)], ["cells", count(found.cells)], ["lowest", extreme(found.min, found.missing[0])], ["highest", extreme(found.max, found.missing[1])], ["NaN", count(found.nans)],
        ["−∞, +∞", found.infinities.some(Boolean) ? found.infinities.join(", ") : null]]));
      if (found.counts?.length) stored.append(histogram(found.edges, found.counts, "plot"));
      stored.append(el("p", { className: "note" }, found.counts ? "No value was read. Where blocks overlap, all of them count, and cells that nobody wrote do not." : "No value was read. There is no histogram: it is kept for encoded blocks of single numbers."));
      const shown = found.published;
      if (shown) {
        stored.append(el("h2", {}, "As published"), facts([["snapshot", count(shown.snapshot)], ["values", count(shown.values)], ["lowest", short(shown.min, 7)], ["highest", short(shown.max, 7)], ["NaN", count(shown.nans)], ["fill value", shown.fills === null ? null : count(shown.fills)]]),
          el("p", { className: "note" }, "Of the cells that showed then, those that nobody wrote among them. No value was read."));
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      stored.append(el("p", { className: "note" }, error.message));
    }
    if (!v.local) this.offer();
  }

  offer(limit) {
    const drawn = "biufVc".includes(this.v.element) && this.v.dtype !== "record";
    if (!drawn) { this.read.append(el("p", { className: "note" }, "These values have no mean: choose a member, or look at them as a table.")); return; }
    if (limit === undefined) { this.measure(); return; }
    this.read.append(el("p", { className: "note" }, `For these ${bytes(limit)} would be read. `, el("button", { type: "button", onclick: () => this.measure(limit * 2) }, "Read them")));
  }

  async measure(limit) {
    const { v } = this;
    replace(this.read, el("h2", {}, "Of the values themselves"), el("p", { className: "note" }, "reading …"));
    try {
      const place = v.shape.map((_, axis) => (v.has_steps && axis === 0 ? this.step : ":")).join(",");
      const found = await ask("sample", { name: v.name, member: v.member, place, limit, part: this.state.part });
      const other = found.nans - found.left_out;
      replace(this.read, el("h2", {}, "Of the values themselves"), facts([["cells", found.stride > 1 ? `${count(found.count)} of ${count(found.of)}` : count(found.count)], ["missing", found.left_out ? count(found.left_out) : null], ["NaN", other ? count(other) : "0"],
        ["lowest", short(found.min, 7)], ["highest", short(found.max, 7)], ["mean", short(found.mean, 7)], ["deviation", short(found.deviation, 7)]]),
      found.counts.length > 1 ? histogram(found.edges, found.counts, "plot") : null,
      el("p", { className: "note" }, found.stride > 1 ? `Of every ${ordinal(found.stride)} cell along each axis: an estimate.` : "Of all cells, as a reader sees them."));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(this.read, el("h2", {}, "Of the values themselves"));
      if (error.costs) this.offer(error.costs);
      else this.read.append(el("p", { className: "note" }, error.message));
    }
  }
}
