// Axes of an array: names, coordinates, and ticks along a side of a picture.

import { short, ticks } from "./text.js";

export class Axis {
  constructor(number, name, length, coordinate) {
    this.number = number;
    this.name = name;
    this.length = length;
    this.coordinate = coordinate && coordinate.values.length === length ? coordinate : null;
  }

  get units() { return this.coordinate?.texts ? "" : this.coordinate?.units ?? ""; }

  // The coordinate of a cell as text; its index if there are no coordinates.
  at(cell) {
    if (this.coordinate?.texts) return this.coordinate.texts[cell] ?? "";
    if (!this.coordinate) return String(cell);
    return short(this.coordinate.values[cell], 6) + (this.units ? ` ${plainUnits(this.units)}` : "");
  }

  get title() {
    if (!this.coordinate) return `${this.name} (cell)`;
    return this.units ? `${this.name} (${plainUnits(this.units)})` : this.name;
  }

  // Whether cells run upwards: northwards, or where values grow and are not depths.
  get upwards() {
    const values = this.coordinate?.values;
    if (!values || values.length < 2 || this.coordinate.texts) return false;
    const grows = values[values.length - 1] > values[0];
    return grows && (/degrees?_?n/i.test(this.coordinate.units) || /^(lat|y|north)/i.test(this.name));
  }

  // Ticks between two cells: [cell, label], where cell + 0.5 is the middle of a cell.
  marks(from, to, wanted) {
    const values = this.coordinate?.values;
    if (this.coordinate?.texts || !values || !values.every((one) => typeof one === "number")) {
      return ticks(from, to - 1, wanted).filter(Number.isInteger).map((cell) => [cell, this.coordinate?.texts ? this.at(cell).slice(0, 10) : String(cell)]);
    }
    if (to - from < 2) return [[from, short(values[from])]];
    const [low, high] = [Math.min(values[from], values[to - 1]), Math.max(values[from], values[to - 1])];
    const found = [];
    for (const mark of ticks(low, high, wanted)) {
      const cell = this.cellOf(mark, from, to);
      if (cell !== null) found.push([cell, short(mark)]);
    }
    // Ticks at uneven coordinates may overlap: then cells get the ticks.
    const crowded = found.some(([cell], n) => n && Math.abs(cell - found[n - 1][0]) < (to - from) / (wanted * 4));
    return found.length > 1 && !crowded ? found : ticks(from, to - 1, wanted).filter(Number.isInteger).map((cell) => [cell, short(values[cell])]);
  }

  cellOf(value, from, to) {
    const { values } = this.coordinate;
    for (let cell = from; cell < to - 1; cell += 1) {
      const [a, b] = [values[cell], values[cell + 1]];
      if ((a <= value && value <= b) || (b <= value && value <= a)) return a === b ? cell : cell + (value - a) / (b - a);
    }
    return null;
  }
}

export function plainUnits(units) {
  return units.replace(/^degrees?_?(n|north|e|east)?$/i, (_, side) => `°${side ? side[0].toUpperCase() : ""}`);
}
