// Numbers, sizes and positions as text.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count) {
  let unit = 0;
  let rest = count;
  while (rest >= 1024 && unit < UNITS.length - 1) { rest /= 1024; unit += 1; }
  return `${unit === 0 ? rest : rest >= 100 ? rest.toFixed(0) : rest.toFixed(1)} ${UNITS[unit]}`;
}

export function count(number, noun) {
  const many = Number(number).toLocaleString("en-US");
  if (!noun) return many;
  if (Number(number) === 1) return `${many} ${noun}`;
  return `${many} ${/[^aeou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

// The fewest digits that identify a value; those of float32 if it is a float32 value.
export function value(number, single = false) {
  if (Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return String(number);
  if (single) {
    for (let digits = 6; digits <= 9; digits += 1) {
      const tried = Number(number.toPrecision(digits));
      if (Math.fround(tried) === number) return String(tried);
    }
  }
  return String(number);
}

export function short(number, digits = 4) {
  if (number === null || number === undefined) return "–";
  if (typeof number === "string") return number;
  if (Number.isInteger(number) && Math.abs(number) < 1e7) return String(number);
  const text = Number(number.toPrecision(digits));
  return Math.abs(text) >= 1e7 || (text !== 0 && Math.abs(text) < 1e-4) ? text.toExponential() : String(text);
}

export function ordinal(n) {
  const last = n % 100 > 10 && n % 100 < 20 ? 0 : n % 10;
  return `${n}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

export function ratio(stored, decoded) {
  return stored ? `${(decoded / stored).toFixed(2)}×` : "–";
}

export function extents(shape) {
  return shape.length ? shape.join(" × ") : "one value";
}

// Round tick values between `low` and `high`: about `wanted` of them.
export function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const off = (one) => Math.abs(Math.log((one * power) / rough));
  const step = power * [1, 2, 5, 10].reduce((best, one) => (off(one) < off(best) ? one : best));
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9 && found.length < 50; at += 1) found.push(at * step);
  return found.map((one) => Number(one.toPrecision(12)));
}

// A position in an array in the server's form: indices, and begin:end for shown axes.
export function place(parts) {
  return parts.map((part) => (Array.isArray(part) ? `${part[0]}:${part[1]}` : String(part))).join(",");
}
