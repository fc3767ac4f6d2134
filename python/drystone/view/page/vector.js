// A drawing context that writes SVG: the part of the canvas API that the pictures use. Texts stay texts.

const SPACE = "http://www.w3.org/2000/svg";
const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASELINES = { top: 0.8, middle: 0.35 }; // fractions of the font size: few programs support dominant-baseline

export class Vector {
  constructor(width, height) {
    this.root = document.createElementNS(SPACE, "svg");
    set(this.root, { xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}` });
    this.ruler = document.createElement("canvas").getContext("2d");
    this.state = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineJoin: "miter", font: "10px sans-serif", textAlign: "left", textBaseline: "alphabetic", transforms: "", clip: null, dash: [] };
    this.kept = [];
    this.clips = 0;
    this.d = "";
    for (const name of Object.keys(this.state)) {
      if (!["transforms", "clip", "dash"].includes(name)) Object.defineProperty(this, name, { get: () => this.state[name], set: (to) => { this.state[name] = to; } });
    }
  }

  get text() { return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.root)}\n`; }

  save() { this.kept.push({ ...this.state }); }
  restore() { this.state = this.kept.pop() ?? this.state; }
  translate(x, y) { this.state.transforms += ` translate(${x} ${y})`; }
  rotate(angle) { this.state.transforms += ` rotate(${(angle * 180) / Math.PI})`; }
  scale(x, y) { this.state.transforms += ` scale(${x} ${y})`; }
  setLineDash(dash) { this.state.dash = dash; }
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }

  beginPath() { this.d = ""; }
  moveTo(x, y) { this.d += `M${x} ${y}`; }
  lineTo(x, y) { this.d += `L${x} ${y}`; }
  rect(x, y, w, h) { this.d += `M${x} ${y}h${w}v${h}h${-w}z`; }
  roundRect(x, y, w, h) { this.rect(x, y, w, h); }
  arc(x, y, r) { this.d += `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`; } // full circles only
  fill() { this.add("path", { d: this.d, ...this.ink("fill", this.fillStyle) }); }
  stroke() { this.add("path", { d: this.d, fill: "none", ...this.line() }); }
  fillRect(x, y, width, height) { this.add("rect", { x, y, width, height, ...this.ink("fill", this.fillStyle) }); }
  strokeRect(x, y, width, height) { this.add("rect", { x, y, width, height, fill: "none", ...this.line() }); }

  clip() {
    this.clips += 1;
    const clip = document.createElementNS(SPACE, "clipPath");
    set(clip, { id: `part${this.clips}` });
    const path = document.createElementNS(SPACE, "path");
    set(path, { d: this.d, transform: this.state.transforms.trim() || null });
    clip.append(path);
    this.root.append(clip);
    this.state.clip = `url(#part${this.clips})`;
  }

  fillText(text, x, y) {
    const [, size, family] = /([\d.]+)px (.*)/.exec(this.font);
    const made = this.add("text", {
      x, y: y + (BASELINES[this.textBaseline] ?? 0) * size, "font-size": size, "font-family": family, "font-weight": /^(\d00|bold)/.exec(this.font)?.[0],
      "text-anchor": ANCHORS[this.textAlign], ...this.ink("fill", this.fillStyle),
    });
    made.textContent = text;
  }

  // The pixels of a canvas, unchanged.
  drawImage(image, left, top, wide, high, x, y, width, height) {
    this.add("image", { href: image.toDataURL("image/png"), x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated" });
  }

  line() { return { ...this.ink("stroke", this.strokeStyle), "stroke-width": this.lineWidth, "stroke-linejoin": this.lineJoin, "stroke-dasharray": this.state.dash.join(" ") || null }; }

  // A colour in a form that every program supports, with a separate opacity.
  ink(name, style) {
    this.ruler.fillStyle = style;
    const found = this.ruler.fillStyle;
    const [, r, g, b, opacity] = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(found) ?? [];
    return opacity === undefined ? { [name]: found } : { [name]: `rgb(${r},${g},${b})`, [`${name}-opacity`]: opacity };
  }

  add(tag, given) {
    const made = document.createElementNS(SPACE, tag);
    set(made, { ...given, transform: this.state.transforms.trim() || null });
    if (this.state.clip) {
      const part = document.createElementNS(SPACE, "g");
      set(part, { "clip-path": this.state.clip });
      part.append(made);
      this.root.append(part);
    } else this.root.append(made);
    return made;
  }
}

function set(element, given) {
  for (const [name, value] of Object.entries(given)) if (value !== null && value !== undefined && name !== "xmlns") element.setAttribute(name, value);
}
