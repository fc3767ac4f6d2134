// Creates elements. Texts become text nodes: text from a container is never parsed as HTML.

export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (name in made && name !== "list" && name !== "form") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function replace(where, ...children) {
  where.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return where;
}

// A table of facts: [[name, value], …]; rows without a value are left out.
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { className: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

export function option(value, text = value, selected = false) {
  return el("option", { value, selected }, String(text));
}

// A canvas at the screen's resolution and the size of its box; `draw` is called with the context and the size.
export function canvas(label, draw) {
  const made = el("canvas", { tabIndex: 0, role: "img", "aria-label": label });
  let asked = 0;
  const paint = () => {
    asked = 0;
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = made;
    if (!width || !height) return;
    if (made.width !== Math.round(width * ratio) || made.height !== Math.round(height * ratio)) {
      made.width = Math.round(width * ratio);
      made.height = Math.round(height * ratio);
    }
    const context = made.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width, height);
  };
  made.repaint = () => { asked ||= requestAnimationFrame(paint); };
  new ResizeObserver(made.repaint).observe(made);
  return made;
}

// A colour of the theme.
export function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
