// The blocks of a step: their positions, writers, subchunks, and stored bytes.

import { ask, newest, Refused } from "./ask.js";
import { Axis } from "./axis.js";
import { writer } from "./colours.js";
import { canvas, el, facts, option, replace, theme } from "./dom.js";
import { fileName, savesOfMap } from "./save.js";
import { bytes, count, extents, ratio, short, ticks } from "./text.js";

const EDGE = { left: 66, top: 10, bottom: 44, right: 14 };

export class Layout {
  constructor(app, v, state) {
    Object.assign(this, { app, v, state });
    this.question = newest();
    this.root = el("div", { className: "values" });
    this.load();
  }

  stop() {}

  async load() {
    const { v, state } = this;
    try {
      const step = v.has_steps ? state.layoutStep ?? (v.local ? null : state.index?.[0] !== undefined && v.steps.includes(state.index[0]) ? state.index[0] : null) : null;
      const found = await this.question((signal) => ask("layout", { name: v.name, member: v.member, step }, signal));
      if (found) this.show(found);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      replace(this.root, el("p", { className: "note" }, error.message));
    }
  }

  show(found) {
    this.found = found;
    const n = found.shape.length;
    this.writers = [...new Set(found.blocks.map((block) => block.writer))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    if (!this.axes || this.axes.some((axis) => axis >= n)) this.axes = n > 1 ? [n - 2, n - 1] : n === 1 ? [null, 0] : null;
    // Like images: north is up.
    const first = this.v.has_steps && !this.v.local ? 1 : 0;
    const down = this.axes?.[0] ?? null;
    this.flip = down !== null && new Axis(down, found.dims[down], found.shape[down], this.v.coordinates[first + down]).upwards;
    this.chosen = null;
    this.at = this.at?.length === n ? this.at.map((cell, axis) => Math.min(cell, Math.max(0, found.shape[axis] - 1))) : found.shape.map((length) => Math.floor(length / 2));
    this.shown = el("p", { className: "note", id: "in-plane" });
    const step = this.v.has_steps ? el("label", { className: "field" }, "step ", el("select", { id: "layout-step", onchange: (event) => { this.state.layoutStep = Number(event.target.value); this.load(); } },
      this.v.steps.map((one) => option(one, one, one === found.step)))) : null;
    const axis = (name, at) => el("label", { className: "field" }, `${name} `, el("select", { onchange: (event) => { const to = Number(event.target.value); const other = 1 - at; if (this.axes[other] === to) this.axes[other] = this.axes[at]; this.axes[at] = to; this.show(found); } },
      found.dims.map((dim, d) => option(d, dim, d === this.axes[at]))));
    this.map = canvas("map of the blocks; arrow keys go from block to block", (...all) => this.draw(...all));
    this.map.className = "image";
    this.map.id = "map";
    this.map.style.cursor = "pointer";
    this.map.addEventListener("pointermove", (event) => { this.over = this.under(event); this.map.repaint(); });
    this.map.addEventListener("pointerleave", () => { this.over = null; this.map.repaint(); });
    this.map.addEventListener("click", (event) => this.choose(this.under(event)));
    this.map.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by || !found.blocks.length) return;
      event.preventDefault();
      this.choose(((this.chosen ?? (by > 0 ? -1 : 0)) + by + found.blocks.length) % found.blocks.length);
    });
    this.about = el("div", { className: "card", id: "block-facts" });
    const stored = el("div", { className: "card" }, el("h2", {}, "This step"), facts([
      ["blocks", count(found.count)], ["writers", count(this.writers.length)], ["stored", bytes(found.stored)], ["in memory", bytes(found.decoded)], ["ratio", ratio(found.stored, found.decoded)],
    ]));
    const most = Math.max(1, ...found.blocks.map((block) => block.stored));
    const list = el("div", { className: "card wide scroll" }, el("table", { id: "blocks" }, el("thead", {}, el("tr", {}, ["writer", "from", "cells", "subchunks", "encoding", "stored", "", "ratio", "lowest", "highest", "NaN", "bytes"].map((name) => el("th", {}, name)))),
      el("tbody", {}, found.blocks.slice(0, 300).map((block, at) => el("tr", {}, el("td", {}, el("button", { className: "link", type: "button", onclick: () => this.choose(at) }, who(block))), el("td", {}, block.offset.join(", ")), el("td", {}, extents(block.shape)),
        el("td", {}, pieces(block)), el("td", {}, block.transform ?? "none"), el("td", { className: "right" }, bytes(block.stored)), el("td", {}, el("div", { className: "bar" }, el("i", { style: { width: `${(100 * block.stored) / most}%` } }))),
        el("td", {}, ratio(block.stored, block.decoded)), el("td", {}, extreme(block, 0)), el("td", {}, extreme(block, 1)), el("td", {}, block.nans || ""), el("td", {}, where(block)))))),
    found.blocks.length > 300 ? el("p", { className: "note" }, `… and ${found.blocks.length - 300} more`) : null);
    replace(this.root,
      el("div", { className: "card" }, el("div", { className: "row", style: { marginBottom: "8px" } }, step, n > 1 ? [axis("down", 0), axis("across", 1)] : null), this.axes ? this.map : el("p", { className: "note" }, "A single value: there is nothing to lay out."),
        el("div", { className: "sliders planes" }, this.planes()), this.shown, this.axes ? savesOfMap(this) : null),
      el("div", { className: "side" }, stored, this.about), list);
    if (found.left_out) this.app.problem(`${found.left_out} older blocks are not shown`);
    this.tell();
    this.choose(null);
  }

  // Saved content: the map without the block under the pointer, and the list of blocks.
  get picture() { return this.found; }
  get drawing() { return { canvas: this.map, still: (...all) => this.still(...all) }; }
  get name() { return this.v.member ? `${this.v.name}.${this.v.member}` : this.v.name; }
  get across() { return this.v.local ? [] : this.found.shape.map((_, axis) => axis).filter((axis) => !this.axes.includes(axis)); }
  get title() { return [this.name, "blocks", this.v.has_steps ? `step ${this.found.step}` : null, ...this.across.map((axis) => `${this.found.dims[axis]} ${this.at[axis]}`)].filter(Boolean).join("  ·  "); }
  get fileName() { return fileName(this.name, "blocks", this.v.has_steps ? this.found.step : null, ...this.across.map((axis) => this.at[axis])); }
  get table() {
    const { dims, blocks } = this.found;
    const named = (what) => dims.map((dim) => `${what} ${dim}`);
    return [["writer", "put", ...named("from"), ...named("cells"), ...named("subchunk"), "encoding", "stored", "decoded", "lowest", "highest", "NaN", "file", "begin", "end"],
      ...blocks.map((block) => [who(block, true), block.put, ...[block.offset, block.shape, block.chunks].flatMap((all) => dims.map((_, axis) => all[axis] ?? "")), block.transform ?? "none", block.stored, block.decoded, ...[0, 1].map((end) => (block.missing[end] ? "" : (end ? block.max : block.min) ?? "")), block.nans, ...(block.place ?? ["", "", ""])])];
  }

  still(context, width, height) {
    const { over } = this;
    this.over = null;
    this.draw(context, width, height);
    this.over = over;
  }

  // Whether a block has cells in the plane.
  meets(block) {
    return this.v.local || !this.axes || block.shape.every((length, axis) => this.axes.includes(axis) || (block.offset[axis] <= this.at[axis] && this.at[axis] < block.offset[axis] + length));
  }

  // A slider for each axis perpendicular to the plane.
  planes() {
    const { found, at } = this;
    if (this.v.local || !this.axes) return [];
    return found.shape.map((length, axis) => {
      if (this.axes.includes(axis) || length < 2) return null;
      const told = el("output", { htmlFor: `plane-${axis}` }, String(at[axis]));
      const range = el("input", { type: "range", id: `plane-${axis}`, min: 0, max: length - 1, value: at[axis], oninput: (event) => { at[axis] = Number(event.target.value); told.textContent = event.target.value; this.tell(); this.map.repaint(); } });
      return [el("label", { htmlFor: range.id }, found.dims[axis]), range, told];
    }).filter(Boolean);
  }

  // How many blocks the plane shows, and how many lie before and behind it.
  tell() {
    const shown = this.found.blocks.filter((block) => this.meets(block)).length;
    const others = this.found.blocks.length - shown;
    replace(this.shown, others ? `${count(shown, "block")} of ${count(this.found.blocks.length)} in this plane. ` : "", this.v.local ? "Blocks of a local variable have places of their own: here they are drawn over each other." : "Newer blocks lie over older ones. Thin lines are subchunks, which are read and decoded by themselves.");
  }

  extent(axis) {
    if (axis === null) return 1;
    return Math.max(1, this.found.shape[axis], ...(this.v.local ? this.found.blocks.map((block) => block.shape[axis] ?? 1) : [1]));
  }

  boxOf(block) {
    const [down, across] = this.axes;
    const { x, y, w, h } = this.frame;
    const at = (axis, length, from) => [from + ((axis === null ? 0 : block.offset[axis] ?? 0) / this.extent(axis)) * length, ((axis === null ? 1 : block.shape[axis] ?? 1) / this.extent(axis)) * length];
    const [left, wide] = at(across, w, x);
    const [top, high] = at(down, h, y);
    return { left, top: this.flip ? 2 * y + h - top - high : top, wide, high };
  }

  draw(context, width, height) {
    if (!this.axes) return;
    this.frame = { x: EDGE.left, y: EDGE.top, w: Math.max(20, width - EDGE.left - EDGE.right), h: Math.max(20, height - EDGE.top - EDGE.bottom) };
    const { x, y, w, h } = this.frame;
    const { blocks, dims } = this.found;
    const [down, across] = this.axes;
    context.fillStyle = theme("missing");
    context.fillRect(x, y, w, h);
    const card = theme("card");
    blocks.filter((block) => this.meets(block)).forEach((block) => {
      const { left, top, wide, high } = this.boxOf(block);
      context.fillStyle = writer(this.writers.indexOf(block.writer));
      context.fillRect(left, top, wide, high);
      const lines = (axis, length, from, side, along) => {
        if (axis === null || !block.chunks[axis]) return;
        const edge = (block.chunks[axis] / this.extent(axis)) * length;
        if (edge < 3) return;
        for (let at = edge; at < along - 0.5; at += edge) side(from + at);
      };
      context.fillStyle = "rgb(255 255 255 / 45%)";
      lines(across, w, left, (at) => context.fillRect(Math.round(at), top, 1, high), wide);
      lines(down, h, top, (at) => context.fillRect(left, Math.round(this.flip ? 2 * top + high - at : at), wide, 1), high);
      context.strokeStyle = card;
      context.lineWidth = 1.5;
      context.strokeRect(left + 0.5, top + 0.5, Math.max(1, wide - 1), Math.max(1, high - 1));
      if (wide > 64 && high > 30) {
        context.fillStyle = "#fff";
        context.font = "600 12px system-ui, sans-serif";
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.shadowColor = "rgb(0 0 0 / 55%)";
        context.shadowBlur = 3;
        context.fillText(who(block, true), left + wide / 2, top + high / 2 - 8);
        context.font = "11.5px system-ui, sans-serif";
        context.fillText(bytes(block.stored), left + wide / 2, top + high / 2 + 8);
        context.shadowBlur = 0;
      }
    });
    for (const [number, dash] of [[this.over, [5, 3]], [this.chosen, []]]) {
      if (number === null || number === undefined) continue;
      const { left, top, wide, high } = this.boxOf(blocks[number]);
      context.setLineDash(dash);
      context.strokeStyle = theme("ink");
      context.lineWidth = 2.5;
      context.strokeRect(left + 1, top + 1, Math.max(1, wide - 2), Math.max(1, high - 2));
      context.setLineDash([]);
    }
    context.fillStyle = theme("faint");
    context.font = "11.5px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const mark of ticks(0, this.extent(across), Math.max(2, w / 90))) context.fillText(short(mark), x + (mark / this.extent(across)) * w, y + h + 6);
    context.fillText(`${dims[across]} (cell)`, x + w / 2, y + h + 24);
    if (down === null) return;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const mark of ticks(0, this.extent(down), Math.max(2, h / 55))) context.fillText(short(mark), x - 7, y + (this.flip ? 1 - mark / this.extent(down) : mark / this.extent(down)) * h);
    context.save();
    context.translate(12, y + h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(`${dims[down]} (cell)`, 0, 0);
    context.restore();
  }

  under(event) {
    if (!this.frame) return null; // nothing has been drawn
    const box = this.map.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    for (let n = this.found.blocks.length - 1; n >= 0; n -= 1) {
      const { left, top, wide, high } = this.boxOf(this.found.blocks[n]);
      if (!this.meets(this.found.blocks[n])) continue;
      if (px >= left && px < left + wide && py >= top && py < top + high) return n;
    }
    return null;
  }

  async choose(number) {
    this.chosen = number;
    this.map.repaint();
    const block = this.found.blocks[number];
    if (block && !this.meets(block)) {
      // Moves the plane to the block.
      block.shape.forEach((length, axis) => { if (!this.axes.includes(axis)) this.at[axis] = block.offset[axis] + Math.floor(length / 2); });
      replace(this.root.querySelector(".planes"), this.planes());
      this.tell();
    }
    if (!block) { replace(this.about, el("h2", {}, "Block"), el("p", { className: "note" }, "Click a block, or go through them with arrow keys.")); return; }
    const plan = el("pre", { id: "plan" });
    replace(this.about, el("h2", {}, "Block"), facts([
      ["writer", who(block)], ["put", `${block.put}, commit ${block.commit}`], ["from", `[${block.offset.join(", ")}]`], ["cells", extents(block.shape)], ["subchunks", pieces(block)],
      ["encoding", block.transform ?? "none"], ["order", block.layout ?? "row by row"], ["members", block.members.join(", ")], ["stored", bytes(block.stored)], ["in memory", bytes(block.decoded)], ["ratio", ratio(block.stored, block.decoded)],
      ["lowest", block.min === null ? null : extreme(block, 0, 6)], ["highest", block.max === null ? null : extreme(block, 1, 6)], ["NaN", block.nans || null], ["bytes", where(block)],
    ]), plan);
    if (this.v.local) return;
    try {
      const own = block.offset.map((from, axis) => `${from}:${from + block.shape[axis]}`);
      const inner = this.v.shape.slice(own.length + (this.v.has_steps ? 1 : 0)).map(() => ":");
      const found = await ask("plan", { name: this.v.name, member: this.v.member, place: [...(this.v.has_steps ? [this.found.step] : []), ...own, ...inner].join(",") });
      plan.textContent = found.plan;
    } catch (error) {
      plan.textContent = error.message;
    }
  }
}

// An extreme that is the fill value, or stands for a missing value, is not a value of the field.
function extreme(block, end, digits) { return block.missing[end] ? "fill value" : short(end ? block.max : block.min, digits); }
function who(block, brief = false) { return block.ranked ? `rank ${block.writer}` : `${brief ? "" : "writer "}${block.writer.replace(/^0+(?=.)/, "").slice(0, 8)}`; }
function pieces(block) {
  const number = block.shape.reduce((all, n, axis) => all * Math.max(1, Math.ceil(n / Math.max(1, block.chunks[axis]))), 1);
  return number === 1 ? "1" : `${count(number)} of ${extents(block.chunks)}`;
}
function where(block) { return block.place ? `${block.place[0]} ${count(block.place[1])}–${count(block.place[2])}` : "–"; }
