// A plane as an image: colours, colour bar, ticks, cross hair, and selection of a part by dragging.

import { table, scale } from "./colours.js";
import { canvas, theme } from "./dom.js";
import { short, ticks } from "./text.js";

const EDGE = { left: 66, top: 10, bottom: 44, right: 92 };
const NARROW = { left: 50, top: 8, bottom: 42, right: 62 }; // on a phone the picture needs the width
const edges = (width) => (width < 460 ? NARROW : EDGE);

export class ImageView {
  constructor({ hovered, picked, narrowed, widened, id = "image" }) {
    this.told = { hovered, picked, narrowed, widened };
    this.canvas = canvas("the plane; arrow keys move the cross hair, Enter picks a cell, + and - zoom", (...all) => this.draw(...all));
    this.canvas.className = "image";
    this.canvas.id = id;
    this.cross = null; // [row, column] of the picture
    this.pin = null; // [row, column] in cells of the array
    this.drag = null;
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerleave", () => { if (!this.drag) this.aim(null); });
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("dblclick", () => this.told.widened());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  show(picture, axes, look) {
    this.picture = picture;
    this.axes = axes; // [down, across]
    this.look = look; // { colours, low, high, log, flip, square, label }
    const [rows, columns] = picture.shape;
    if (this.cross && (this.cross[0] >= rows || this.cross[1] >= columns)) this.cross = null;
    this.fit();
    this.paint();
    this.canvas.repaint();
    if (this.cross) this.told.hovered(this.cross);
  }

  // Shows where a condition holds: for each value of the picture, the fraction of its cells; null removes the
  // marks.
  mark(hits) {
    this.hits = null;
    if (hits && this.picture && hits.shape.every((n, axis) => n === this.picture.shape[axis])) {
      const [rows, columns] = hits.shape;
      const image = new ImageData(columns, rows);
      for (let i = 0; i < rows * columns; i += 1) {
        if (!(hits.values[i] > 0)) continue;
        image.data.set([255, 45, 149, 110 + Math.round(130 * hits.values[i])], 4 * i);
      }
      this.hits = document.createElement("canvas");
      this.hits.width = columns;
      this.hits.height = rows;
      this.hits.getContext("2d").putImageData(image, 0, 0);
    }
    this.canvas.dataset.hits = this.hits ? hits.hits : "";
    this.canvas.repaint();
  }

  // At most as tall as square cells need.
  fit() {
    const [rows, columns] = [0, 1].map((n) => this.picture.stops[n] - this.picture.starts[n]);
    const edge = edges(this.canvas.clientWidth);
    const wide = this.canvas.clientWidth - edge.left - edge.right;
    const needed = this.look.square && wide > 0 ? Math.round((wide * rows) / columns) + edge.top + edge.bottom : null;
    this.canvas.style.height = needed ? `min(62vh, 640px, ${Math.max(edge === NARROW ? 150 : 240, needed)}px)` : "";
  }

  // One pixel per value, off-screen; the visible canvas scales it.
  paint() {
    const { shape: [rows, columns], values } = this.picture;
    const colours = table(this.look.colours);
    const number = scale(this.look.low, this.look.high, this.look.log);
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i += 1) {
      const colour = number(values[i]);
      if (colour < 0) continue;
      image.data[4 * i] = colours[3 * colour];
      image.data[4 * i + 1] = colours[3 * colour + 1];
      image.data[4 * i + 2] = colours[3 * colour + 2];
      image.data[4 * i + 3] = 255;
    }
    this.pixels ??= document.createElement("canvas");
    this.pixels.width = columns;
    this.pixels.height = rows;
    this.pixels.getContext("2d").putImageData(image, 0, 0);
  }

  // The position of the plane on the canvas.
  frame(width, height) {
    const edge = edges(width);
    const room = [Math.max(20, width - edge.left - edge.right), Math.max(20, height - edge.top - edge.bottom)];
    let [w, h] = room;
    if (this.look.square) {
      const [rows, columns] = [0, 1].map((n) => this.picture.stops[n] - this.picture.starts[n]);
      const by = Math.min(w / columns, h / rows);
      [w, h] = [Math.max(8, columns * by), Math.max(8, rows * by)];
    }
    return { x: edge.left, y: edge.top, w, h };
  }

  draw(context, width, height) {
    if (!this.picture) return;
    const { x, y, w, h } = this.frame(width, height);
    this.last = { x, y, w, h };
    this.canvas.dataset.frame = [x, y, w, h].join(",");
    context.fillStyle = theme("missing");
    context.fillRect(x, y, w, h);
    context.imageSmoothingEnabled = false;
    const [rows, columns] = this.picture.shape;
    // The last column may represent fewer cells than the others.
    const [fullH, fullW] = [0, 1].map((n) => (this.picture.shape[n] * this.picture.strides[n]) / (this.picture.stops[n] - this.picture.starts[n]));
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    if (this.look.flip) { context.translate(0, 2 * y + h); context.scale(1, -1); }
    context.drawImage(this.pixels, 0, 0, columns, rows, x, y, w * fullW, h * fullH);
    if (this.hits) context.drawImage(this.hits, 0, 0, columns, rows, x, y, w * fullW, h * fullH);
    context.restore();
    context.strokeStyle = theme("line");
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    this.marks(context, { x, y, w, h });
    const edge = edges(width);
    this.bar(context, { x: x + w + (edge === NARROW ? 9 : 18), y, h: this.look.square ? Math.max(h, Math.min(90, height - edge.top - edge.bottom)) : h });
    this.hair(context, { x, y, w, h });
  }

  marks(context, { x, y, w, h }) {
    const ink = theme("faint");
    context.fillStyle = ink;
    context.strokeStyle = ink;
    context.font = "11.5px system-ui, sans-serif";
    const [down, across] = this.axes;
    const { starts, stops } = this.picture;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [cell, label] of across.marks(starts[1], stops[1], Math.max(2, w / 90))) {
      const at = x + ((cell + 0.5 - starts[1]) / (stops[1] - starts[1])) * w;
      context.fillRect(Math.round(at), y + h, 1, 4);
      context.fillText(label, at, y + h + 7);
    }
    context.fillText(across.title, x + w / 2, y + h + 25);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [cell, label] of down.marks(starts[0], stops[0], Math.max(2, h / 55))) {
      const part = (cell + 0.5 - starts[0]) / (stops[0] - starts[0]);
      const at = y + (this.look.flip ? 1 - part : part) * h;
      context.fillRect(x - 4, Math.round(at), 4, 1);
      context.fillText(label, x - 7, at);
    }
    context.save();
    context.translate(12, y + h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(down.title, 0, 0);
    context.restore();
  }

  bar(context, { x, y, h }) {
    const { colours, low, high, log, label } = this.look;
    const all = table(colours);
    for (let i = 0; i < h; i += 1) {
      const colour = Math.min(255, Math.floor((1 - (i + 0.5) / h) * 256));
      context.fillStyle = `rgb(${all[3 * colour]} ${all[3 * colour + 1]} ${all[3 * colour + 2]})`;
      context.fillRect(x, y + i, 14, 1.5);
    }
    context.strokeStyle = theme("line");
    context.strokeRect(x + 0.5, y + 0.5, 13, h - 1);
    context.fillStyle = theme("faint");
    context.font = "11.5px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
    for (const mark of ticks(a, b, Math.max(2, h / 60))) {
      const at = b > a ? y + h - ((mark - a) / (b - a)) * h : y + h / 2;
      context.fillRect(x + 14, Math.round(at), 4, 1);
      context.fillText(log ? short(10 ** mark) : short(mark), x + 21, Math.min(y + h - 5, Math.max(y + 5, at)));
    }
    if (!label) return;
    context.save();
    context.translate(x + 66, y + h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(label, 0, 0);
    context.restore();
  }

  hair(context, box) {
    const ring = (row, column, colour) => {
      const at = this.middle(row, column, box);
      context.strokeStyle = colour;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(box.x, at.y); context.lineTo(box.x + box.w, at.y);
      context.moveTo(at.x, box.y); context.lineTo(at.x, box.y + box.h);
      context.stroke();
      return at;
    };
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    if (this.cross) {
      context.globalCompositeOperation = "difference";
      ring(...this.cross, "rgb(150 150 150)");
      context.globalCompositeOperation = "source-over";
    }
    if (this.pin) {
      const { starts, strides } = this.picture;
      const at = this.middle(...this.pin.map((cell, n) => Math.floor((cell - starts[n]) / strides[n])), box);
      for (const [width, colour] of [[4, "#000b"], [2, "#fff"]]) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        context.arc(at.x, at.y, 6, 0, 7);
        context.stroke();
      }
    }
    if (this.drag?.to) {
      const { from, to } = this.drag;
      context.fillStyle = "rgb(255 255 255 / 25%)";
      context.strokeStyle = "#000";
      context.lineWidth = 1;
      const area = [Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x), Math.abs(to.y - from.y)];
      context.fillRect(...area);
      context.strokeRect(...area);
    }
    context.restore();
  }

  middle(row, column, { x, y, w, h }) {
    const [down, across] = [row, column].map((one, n) => ((one + 0.5) * this.picture.strides[n]) / (this.picture.stops[n] - this.picture.starts[n]));
    return { x: x + across * w, y: y + (this.look.flip ? 1 - down : down) * h };
  }

  // The value of the picture at a point, or null.
  under(point) {
    if (!this.last || !this.picture) return null;
    const { x, y, w, h } = this.last;
    const across = (point.x - x) / w;
    let down = (point.y - y) / h;
    if (across < 0 || across >= 1 || down < 0 || down >= 1) return null;
    if (this.look.flip) down = 1 - down;
    return [down, across].map((part, n) => {
      const cell = Math.floor(part * (this.picture.stops[n] - this.picture.starts[n]) / this.picture.strides[n]);
      return Math.max(0, Math.min(this.picture.shape[n] - 1, cell));
    });
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  aim(cross) {
    this.point(cross);
    this.told.hovered(cross);
  }

  // Sets the cross hair to that of another picture of the same cells.
  point(cross) {
    this.cross = cross;
    this.canvas.repaint();
  }

  // Draws the picture without the pointer's effects, on any context.
  still(context, width, height) {
    const { cross, drag } = this;
    this.cross = this.drag = null;
    this.draw(context, width, height);
    Object.assign(this, { cross, drag });
  }

  move(event) {
    const point = this.at(event);
    if (this.drag && Math.hypot(point.x - this.drag.from.x, point.y - this.drag.from.y) > 5) this.drag.to = point;
    this.aim(this.under(point));
  }

  press(event) {
    if (event.button !== 0 || !this.under(this.at(event))) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: this.at(event), to: null };
  }

  release() {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    if (!drag.to) {
      const cell = this.under(drag.from);
      if (cell) this.told.picked(this.cellOf(cell));
    } else {
      const { x, y, w, h } = this.last;
      const inside = (p) => ({ x: Math.min(x + w - 0.01, Math.max(x, p.x)), y: Math.min(y + h - 0.01, Math.max(y, p.y)) });
      const [a, b] = [this.under(inside(drag.from)), this.under(inside(drag.to))];
      if (a && b) this.told.narrowed([0, 1].map((n) => this.span(n, Math.min(a[n], b[n]), Math.max(a[n], b[n]) + 1)));
    }
    this.canvas.repaint();
  }

  // The cell of the array for a value of the picture.
  cellOf(cross) {
    return cross.map((one, n) => this.picture.starts[n] + one * this.picture.strides[n]);
  }

  span(n, from, to) {
    const { starts, stops, strides } = this.picture;
    return [starts[n] + from * strides[n], Math.min(stops[n], starts[n] + to * strides[n])];
  }

  key(event) {
    if (event.key === "-" || event.key === "Escape") {
      event.preventDefault();
      this.told.widened();
      return;
    }
    if (!this.picture) return;
    const [rows, columns] = this.picture.shape;
    const by = event.shiftKey ? 10 : 1;
    const up = this.look.flip ? 1 : -1;
    const moves = { ArrowUp: [up, 0], ArrowDown: [-up, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const at = this.cross ?? [Math.floor(rows / 2), Math.floor(columns / 2)];
    if (moves[event.key]) {
      const [down, across] = moves[event.key];
      this.aim([Math.max(0, Math.min(rows - 1, at[0] + by * down)), Math.max(0, Math.min(columns - 1, at[1] + by * across))]);
    } else if (event.key === "Enter") this.told.picked(this.cellOf(at));
    else if (event.key === "+" || event.key === "=") {
      const size = [rows, columns].map((n) => Math.max(1, Math.ceil(n / 2)));
      this.told.narrowed([0, 1].map((n) => {
        const from = Math.max(0, Math.min([rows, columns][n] - size[n], at[n] - Math.floor(size[n] / 2)));
        return this.span(n, from, from + size[n]);
      }));
    } else return;
    event.preventDefault();
  }
}
