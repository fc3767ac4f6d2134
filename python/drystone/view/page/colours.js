// Colour maps of 256 colours each. viridis, magma, inferno, plasma and cividis are interpolated from 17 colours
// of the maps with these names (CC0). The others are interpolated here, linearly in OKLab.

const HEX = {
  viridis: "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
  magma: "000004 0a0822 1d1147 36106b 51127c 6a1c81 832681 9c2e7f b73779 d0416f e75263 f56b5c fc8961 fea772 fec488 fde2a3 fcfdbf",
  inferno: "000004 0b0724 210c4a 3d0965 57106e 71196e 8a226a a32c61 bc3754 d24644 e45a31 f1731d f98e09 fcac11 f9cb35 f2ea69 fcffa4",
  plasma: "0d0887 310597 4c02a1 6600a7 7e03a8 9511a1 aa2395 bc3587 cc4778 da5a6a e66c5c f0804e f89540 fdac33 fdc527 f8df25 f0f921",
  cividis: "00224e 002e6a 1a386f 32436d 434e6c 535a6d 61656f 6f7073 7d7c78 8c8878 9b9476 aba072 bcae6c cdbb63 dec958 f0d846 fee838",
  gray: "000000 ffffff",
  ocean: "04142c 0b3a66 1272a0 4fb0c6 b5e3dc f6fbef",
  "land and sea": "0a1f4d 1c5a9c 58a6d6 bfe3ee 2f7d4f 8fb363 d9c98a a9764e f4f0ea",
  "blue–red": "053061 2a6fb0 79b3d8 d5e6f0 f7f7f4 f8dccb ee9a78 c43e3f 67001f",
  phase: "a8395f c1852a 7f9e2f 2a9d74 2f8fc0 6f72c9 a8395f",
};
export const NAMES = Object.keys(HEX);
const STRAIGHT = new Set(["viridis", "magma", "inferno", "plasma", "cividis"]);
const made = new Map();

function linear(c) { const x = c / 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }
function gamma(x) { const c = x <= 0.0031308 ? 12.92 * x : 1.055 * Math.max(x, 0) ** (1 / 2.4) - 0.055; return 255 * Math.min(1, Math.max(0, c)); }
function lab([r, g, b]) {
  const [x, y, z] = [linear(r), linear(g), linear(b)];
  const l = Math.cbrt(0.4122214708 * x + 0.5363325363 * y + 0.0514459929 * z);
  const m = Math.cbrt(0.2119034982 * x + 0.6806995451 * y + 0.1073969566 * z);
  const s = Math.cbrt(0.0883024619 * x + 0.2817188376 * y + 0.6299787005 * z);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}
function rgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s), gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s), gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s)];
}

// 256 colours as bytes: r, g, b, r, g, b, …
export function table(name) {
  const key = HEX[name] ? name : "viridis";
  if (made.has(key)) return made.get(key);
  const points = HEX[key].split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const straight = STRAIGHT.has(key);
  const nodes = straight ? points : points.map(lab);
  const out = new Uint8ClampedArray(768);
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (nodes.length - 1);
    const from = Math.min(nodes.length - 2, Math.floor(at));
    const mixed = nodes[from].map((x, n) => x + (at - from) * (nodes[from + 1][n] - x));
    out.set(straight ? mixed : rgb(mixed), 3 * i);
  }
  made.set(key, out);
  return out;
}

// Maps a value to the index of a colour; -1 if there is none.
export function scale(low, high, log) {
  const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const by = b > a ? 256 / (b - a) : 0;
  return (number) => {
    const x = log ? Math.log10(number) : number;
    if (Number.isNaN(x) || (log && !(number > 0))) return -1;
    if (by === 0) return x < a ? 0 : x > b ? 255 : 128;
    return Math.max(0, Math.min(255, Math.floor((x - a) * by)));
  };
}

// Colours of writers: far apart, for any number of writers.
export function writer(number, alpha = 1) {
  return `hsl(${(number * 137.508 + 190) % 360} 40% ${number % 2 ? 44 : 54}% / ${alpha})`;
}
