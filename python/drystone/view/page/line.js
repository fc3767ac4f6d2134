// Values along one axis as a line, with the value under the pointer; and histograms as bars.

import { canvas, theme } from "./dom.js";
import { short, ticks, value } from "./text.js";

const EDGE = { left: 66, top: 10, bottom: 40, right: 14 };

export class LineView {
  constructor({ hovered = () => {}, picked = () => {}, tall = false, id = "line" } = {}) {
    this.told = { hovered, picked };
    this.canvas = canvas("values along an axis; arrow keys move along it", (...all) => this.draw(...all));
    this.canvas.className = tall ? "plot tall" : "plot";
    this.canvas.id = id;
    this.at = null;
    const near = (event) => {
      if (!this.picture || !this.box) return null;
      const { left } = this.canvas.getBoundingClientRect();
      const cell = Math.round(((event.clientX - left - this.box.x) / this.box.w) * Math.max(1, this.picture.shape[0] - 1));
      return cell < 0 || cell >= this.picture.shape[0] ? null : cell;
    };
    this.canvas.addEventListener("pointermove", (event) => this.aim(near(event)));
    this.canvas.addEventListener("pointerleave", () => this.aim(null));
    this.canvas.addEventListener("click", (event) => { const cell = near(event); if (cell !== null) this.told.picked(this.cellOf(cell)); });
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !this.picture) return;
      event.preventDefault();
      const last = this.picture.shape[0] - 1;
      this.aim(Math.max(0, Math.min(last, (this.at ?? Math.floor(last / 2)) + by * (event.shiftKey ? 10 : 1))));
    });
  }

  show(picture, axis, label, range = null, marked = null) {
    Object.assign(this, { picture, axis, label, range, marked });
    if (this.at !== null && this.at >= picture.shape[0]) this.at = null;
    this.canvas.repaint();
  }

  cellOf(n) { return this.picture.starts[0] + n * this.picture.strides[0]; }

  aim(cell) {
    this.point(cell === null ? null : [cell]);
    this.told.hovered(cell);
  }

  // Sets the mark to that of another line of the same cells.
  point(cross) {
    this.at = cross === null ? null : cross[0];
    this.canvas.repaint();
  }

  // Draws the line without the pointer's effects, on any context.
  still(context, width, height) {
    const { at } = this;
    this.at = null;
    this.draw(context, width, height);
    this.at = at;
  }

  draw(context, width, height) {
    if (!this.picture) return;
    const { values, shape: [n], starts, strides } = this.picture;
    const box = { x: EDGE.left, y: EDGE.top, w: Math.max(10, width - EDGE.left - EDGE.right), h: Math.max(10, height - EDGE.top - EDGE.bottom) };
    this.box = box;
    let [low, high] = this.range ?? [this.picture.min, this.picture.max];
    const faint = theme("faint");
    context.font = "11.5px system-ui, sans-serif";
    if (low === null) {
      context.fillStyle = faint;
      context.textAlign = "center";
      context.fillText("nothing but missing values", box.x + box.w / 2, box.y + box.h / 2);
      return;
    }
    if (!(high > low)) { const by = Math.abs(low) * 0.05 || 1; [low, high] = [low - by, high + by]; }
    if (!this.range) { const by = (high - low) * 0.05; [low, high] = [low - by, high + by]; }
    const px = (i) => box.x + (n > 1 ? (i / (n - 1)) * box.w : box.w / 2);
    const py = (v) => box.y + box.h - ((v - low) / (high - low)) * box.h;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const mark of ticks(low, high, Math.max(2, box.h / 42))) {
      context.fillStyle = theme("line");
      context.fillRect(box.x, Math.round(py(mark)), box.w, 1);
      context.fillStyle = faint;
      context.fillText(short(mark), box.x - 7, py(mark));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillStyle = faint;
    for (const [cell, label] of this.axis.marks(starts[0], Math.min(this.picture.stops[0], starts[0] + (n - 1) * strides[0] + 1), Math.max(2, box.w / 100))) {
      const at = px((cell - starts[0]) / strides[0]);
      context.fillRect(Math.round(at), box.y + box.h, 1, 4);
      context.fillText(label, at, box.y + box.h + 6);
    }
    context.fillText(this.axis.title, box.x + box.w / 2, box.y + box.h + 22);
    context.save();
    context.translate(11, box.y + box.h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.label, 0, -4);
    context.restore();
    context.save();
    context.beginPath();
    context.rect(box.x, box.y - 2, box.w + 2, box.h + 4);
    context.clip();
    context.strokeStyle = theme("accent");
    context.fillStyle = theme("accent");
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    context.beginPath();
    let down = false;
    for (let i = 0; i < n; i += 1) {
      if (!Number.isFinite(values[i])) { down = false; continue; }
      if (down) context.lineTo(px(i), py(values[i])); else context.moveTo(px(i), py(values[i]));
      down = true;
    }
    context.stroke();
    if (n <= 150) for (let i = 0; i < n; i += 1) if (Number.isFinite(values[i])) { context.beginPath(); context.arc(px(i), py(values[i]), 2.4, 0, 7); context.fill(); }
    if (this.marked !== null) {
      context.fillStyle = theme("faint");
      context.fillRect(Math.round(px((this.marked - starts[0]) / strides[0])), box.y, 1, box.h);
    }
    context.restore();
    if (this.at === null) return;
    const [x, v] = [px(this.at), values[this.at]];
    context.fillStyle = faint;
    context.fillRect(Math.round(x), box.y, 1, box.h);
    const said = `${this.axis.at(this.cellOf(this.at))}: ${value(v, this.picture.dtype === "f4")}`;
    const wide = context.measureText(said).width + 12;
    const left = Math.min(box.x + box.w - wide, Math.max(box.x, x + 8));
    context.fillStyle = theme("card");
    context.strokeStyle = theme("line");
    context.beginPath();
    context.roundRect(left, box.y + 4, wide, 20, 5);
    context.fill();
    context.stroke();
    context.fillStyle = theme("ink");
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(said, left + 6, box.y + 14);
  }
}

// Bars over `edges`, with labels at both ends; the canvas has the class `name`.
export function histogram(edges, counts, name = "histogram") {
  const most = Math.max(1, ...counts);
  const made = canvas(`histogram: ${counts.length} bins from ${short(edges[0])} to ${short(edges[edges.length - 1])}`, (context, width, height) => {
    const h = height - 18;
    const span = edges[edges.length - 1] - edges[0] || 1;
    context.fillStyle = theme("accent");
    counts.forEach((count, n) => {
      const [from, to] = [edges[n], edges[n + 1]].map((edge) => 1 + ((edge - edges[0]) / span) * (width - 2));
      const high = count ? Math.max(1.5, (count / most) * (h - 2)) : 0;
      context.fillRect(from, h - high, Math.max(1, to - from - 1), high);
    });
    context.fillStyle = theme("line");
    context.fillRect(0, h, width, 1);
    context.fillStyle = theme("faint");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    context.fillText(short(edges[0]), 0, h + 4);
    context.textAlign = "right";
    context.fillText(short(edges[edges.length - 1]), width, h + 4);
  });
  made.className = name;
  made.tabIndex = -1;
  return made;
}
