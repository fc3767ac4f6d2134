// Saves what is shown: the picture as PNG or SVG, its values as CSV or .npy.

import { el, theme } from "./dom.js";
import { value } from "./text.js";
import { Vector } from "./vector.js";

const HEAD = 28; // pixels above a saved picture, for its title

// Buttons that save what a pane shows. A pane has `picture`, `cells` (of a table), `axes`, `v`, `drawing`,
// `title` and `fileName`.
export function saves(pane) {
  const button = (...all) => saveButton(pane, ...all);
  const csv = button("CSV", "The values that are shown, with their coordinates", () => keep(pane, "csv", new Blob([pane.cells ? cellsOf(pane) : valuesOf(pane)], { type: "text/csv" })));
  if (!pane.drawing) return el("div", { className: "row saves" }, el("span", { className: "note" }, "save"), csv);
  return el("div", { className: "row saves" }, el("span", { className: "note" }, "save"),
    ...pictures(pane),
    csv,
    button("npy", "The values that are shown, for numpy.load: NaN where there are none", () => keep(pane, "npy", new Blob([array(pane.picture)]))));
}

// The same for a map of blocks. Instead of values it has `table`, the rows of its blocks.
export function savesOfMap(pane) {
  return el("div", { className: "row saves" }, el("span", { className: "note" }, "save"), ...pictures(pane),
    saveButton(pane, "CSV", "The blocks of the step, one a row", () => keep(pane, "csv", new Blob([rows(pane.table)], { type: "text/csv" }))));
}

function saveButton(pane, kind, title, make) {
  return el("button", { type: "button", className: "save", "data-save": kind, title, onclick: () => pane.app.attempt(make) }, kind);
}

function pictures(pane) {
  return [
    saveButton(pane, "PNG", "The picture as pixels, twice as fine as here", async () => keep(pane, "png", await pixels(pane))),
    saveButton(pane, "SVG", "The picture as texts, lines and the pixels of its values", () => keep(pane, "svg", new Blob([drawn(pane)], { type: "image/svg+xml" }))),
  ];
}

// The name of a file with a part of the shown data, without its suffix.
export function fileName(...parts) {
  const container = document.getElementById("where").textContent.replace(/\.dry$/, "");
  return [container, ...parts].filter((one) => one !== "" && one !== null && one !== undefined).join("-").replace(/[^\w.-]+/g, "-");
}

function keep(pane, kind, blob) {
  if (!blob) throw new Error("there is nothing to save yet");
  const link = el("a", { href: URL.createObjectURL(blob), download: `${pane.fileName}.${kind}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function paint(pane, context, width, height) {
  context.fillStyle = theme("card");
  context.fillRect(0, 0, width, height + HEAD);
  context.fillStyle = theme("ink");
  context.font = "600 13px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(pane.title, 12, HEAD / 2 + 2);
  context.translate(0, HEAD);
  pane.drawing.still(context, width, height);
}

function size(pane) {
  shown(pane);
  return [pane.drawing.canvas.clientWidth, pane.drawing.canvas.clientHeight];
}

function pixels(pane) {
  const [width, height] = size(pane);
  const made = document.createElement("canvas");
  [made.width, made.height] = [2 * width, 2 * (height + HEAD)];
  const context = made.getContext("2d");
  context.scale(2, 2);
  paint(pane, context, width, height);
  return new Promise((done) => { made.toBlob(done, "image/png"); });
}

function drawn(pane) {
  const [width, height] = size(pane);
  const context = new Vector(width, height + HEAD);
  paint(pane, context, width, height);
  return context.text;
}

function shown(pane) {
  if (!pane.picture) throw new Error("no picture is shown that could be saved");
  return pane.picture;
}

// Rows of comma-separated values, as RFC 4180 specifies; a missing value is empty.
function valuesOf(pane) {
  const { shape, axes, starts, strides, values, dtype } = shown(pane);
  const number = (one) => (Number.isNaN(one) ? "" : Number.isFinite(one) ? value(one, dtype === "f4") : one > 0 ? "inf" : "-inf");
  const along = (n) => Array.from({ length: shape[n] }, (_, cell) => coordinate(pane.axes[axes[n]], starts[n] + cell * strides[n]));
  const [down, across] = axes.map((axis) => pane.axes[axis].name);
  if (shape.length === 1) return rows([[down, pane.name], ...along(0).map((at, cell) => [at, number(values[cell])])]);
  const columns = shape[1];
  return rows([[`${down}\\${across}`, ...along(1)], ...along(0).map((at, row) => [at, ...Array.from(values.subarray(row * columns, (row + 1) * columns), number)])]);
}

// The cells of a table, as texts.
function cellsOf(pane) {
  const { cells, axes, starts } = pane.cells;
  const [down, across] = axes.map((axis) => pane.axes[axis]);
  if (!down) return rows([[pane.name], [cells[0][0]]]);
  const head = across ? [`${down.name}\\${across.name}`, ...cells[0].map((_, n) => coordinate(across, starts[1] + n))] : [down.name, pane.name];
  return rows([head, ...cells.map((row, n) => [coordinate(down, starts[0] + n), ...row])]);
}

function coordinate(axis, cell) {
  return axis.coordinate ? axis.coordinate.texts?.[cell] ?? axis.coordinate.values[cell] : cell;
}

function rows(all) {
  const field = (one) => (/[",\r\n]/.test(one) ? `"${String(one).replaceAll('"', '""')}"` : String(one));
  return all.map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

// NumPy's format, version 1.0: magic, version, header length, header padded to 64 bytes, values.
function array(picture) {
  if (!picture) throw new Error("no picture is shown whose values could be saved");
  const shape = `(${picture.shape.join(", ")}${picture.shape.length === 1 ? "," : ""})`;
  const text = `{'descr': '<${picture.dtype}', 'fortran_order': False, 'shape': ${shape}, }`;
  const header = new TextEncoder().encode(`${text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11)}\n`);
  const made = new Uint8Array(10 + header.length + picture.values.byteLength);
  made.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  made.set(header, 10);
  made.set(new Uint8Array(picture.values.buffer, picture.values.byteOffset, picture.values.byteLength), 10 + header.length);
  return made;
}
