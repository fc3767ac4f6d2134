// Missing steps: nothing was committed in them, though later steps exist.

import { el } from "./dom.js";
import { count } from "./text.js";

export class Steps {
  // `v` is the answer about a variable: `missing` has the ranges of missing steps, `missing_count` their
  // number.
  constructor(v) {
    this.length = v.has_steps && !v.local ? v.shape[0] : 0;
    this.ranges = this.length ? v.missing : [];
    this.number = this.length ? v.missing_count : 0;
  }

  lacks(step) { return this.ranges.some(([from, to]) => from <= step && step < to); }

  // The next existing step in a direction; null if there is none.
  next(step, by) {
    for (let at = step + by; at >= 0 && at < this.length;) {
      const gap = this.ranges.find(([from, to]) => from <= at && at < to);
      if (!gap) return at;
      at = by > 0 ? gap[1] : gap[0] - 1;
    }
    return null;
  }

  // The missing steps, below a slider.
  strip() {
    const stops = [];
    const place = (step) => `${Math.max(0, Math.min(100, (100 * (step - 0.5)) / Math.max(1, this.length - 1))).toFixed(3)}%`;
    for (const [from, to] of this.ranges) stops.push(`transparent ${place(from)}`, `var(--bad) ${place(from)}`, `var(--bad) ${place(to)}`, `transparent ${place(to)}`);
    const said = `${count(this.number, "step")} missing: ${this.list()}`;
    return el("div", { className: "gaps", role: "img", title: said, "aria-label": said, style: { backgroundImage: `linear-gradient(to right, ${stops.join(", ")})` } });
  }

  list() {
    const named = this.ranges.slice(0, 8).map(([from, to]) => (to - from === 1 ? String(from) : `${from} to ${to - 1}`));
    return named.join(", ") + (this.ranges.length > 8 ? ", …" : "");
  }

  // A sentence instead of a picture, with links to the steps beside the gap.
  sentence(name, step, go) {
    const beside = [this.next(step, -1), this.next(step, 1)].filter((one) => one !== null);
    return [`Step ${step} of ${name} is missing: nothing was committed of it. `, ...beside.map((one) => el("button", { type: "button", className: "to-step", onclick: () => go(one) }, `step ${one}`))];
  }
}
