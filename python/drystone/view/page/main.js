// The page: the selected container, snapshot, variable and tab.

import { ask, lookAt, lookedAt, Refused } from "./ask.js";
import { el, facts, option, replace } from "./dom.js";
import { Layout } from "./layout.js";
import { attributes, overview } from "./overview.js";
import { Statistics } from "./statistics.js";
import { bytes, extents } from "./text.js";
import { Tree } from "./tree.js";
import { Values } from "./values.js";

const at = (id) => document.getElementById(id);
const TABS = [["values", "Values"], ["layout", "Layout"], ["statistics", "Statistics"], ["about", "About"]];

const app = {
  state: {}, // of the shown variable; stored in the URL
  variable: null,
  panel: null,
  newest: null,

  problem(text) {
    at("problem").hidden = !text;
    at("problem").textContent = text ?? "";
  },

  // Runs a function that may fail, and reports the failure.
  async attempt(what) {
    try {
      await what();
      this.problem(null);
    } catch (error) {
      this.problem(error.message);
    }
  },

  // The URL contains the selection, so that it can be bookmarked.
  remember() {
    const { state } = this;
    const given = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      if (value === null || value === undefined || value === false || key === "name") continue;
      if (typeof value === "object") { if (Object.keys(value).length) given.set(key, JSON.stringify(value)); } else given.set(key, String(value));
    }
    const hash = `#${encodeURIComponent(state.name ?? "")}${[...given].length ? `?${given}` : ""}`;
    if (hash !== location.hash) history.replaceState(null, "", hash);
  },

  async open(name, more = {}) {
    const same = name === this.state.name;
    this.state = { name, tab: same ? this.state.tab : this.state.tab ?? "values", ...more };
    history.pushState(null, "", `#${encodeURIComponent(name ?? "")}`);
    await this.show();
  },

  async show() {
    const { state } = this;
    // An answer that arrives after the user moved on is dropped.
    const stale = () => this.state !== state;
    this.panel?.stop?.();
    this.panel = null;
    tree.select(state.name ?? null);
    try {
      if (!state.name) { await this.showContainer(stale); } else {
        let found = await ask("variable", { name: state.name, member: state.member, block: state.block, step: state.step });
        if (found.kind === "variable" && found.members.length && state.member === undefined) {
          const drawn = found.members.find((member) => !/^(\||<U|<S|str|record|object)/.test(member.dtype)) ?? found.members[0];
          state.member = drawn.name;
          found = await ask("variable", { name: state.name, member: state.member, block: state.block, step: state.step });
        }
        if (stale()) return;
        this.variable = found;
        if (found.kind === "group") this.showGroup(found);
        else this.showVariable(found);
      }
      this.problem(null);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (stale()) return;
      replace(at("main"), el("h1", {}, state.name ?? ""), el("p", { className: "note bad", id: "why" }, error.message));
    }
    document.title = state.name ? `${state.name} – ${at("where").textContent}` : at("where").textContent;
  },

  async showContainer(stale) {
    const found = await ask("container");
    if (stale()) return;
    at("where").textContent = found.name;
    at("where").title = found.path;
    snapshots(found);
    replace(at("main"), el("div", { className: "title" }, el("h1", {}, found.name)), overview(found, (name) => this.open(name)));
  },

  showGroup(found) {
    replace(at("main"), el("div", { className: "title" }, el("h1", {}, found.name), el("span", { className: "chip" }, "group")), el("div", { className: "card" }, el("h2", {}, "Attributes"), attributes(found.attributes)));
  },

  showVariable(v) {
    const { state } = this;
    const panel = el("div", { id: "panel", role: "tabpanel" });
    const tabs = el("div", { className: "tabs", role: "tablist" }, TABS.map(([id, text]) => el("button", {
      type: "button", role: "tab", id: `tab-${id}`, "aria-selected": String(state.tab === id), "aria-controls": "panel", tabIndex: state.tab === id ? 0 : -1, onclick: () => this.tab(id),
    }, text)));
    tabs.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const now = TABS.findIndex(([id]) => id === this.state.tab);
      this.tab(TABS[(now + by + TABS.length) % TABS.length][0]);
      at(`tab-${this.state.tab}`).focus();
    });
    const grows = v.growable.some(Boolean) ? ", grows" : "";
    replace(at("main"), el("div", { className: "title" }, el("h1", {}, v.member ? `${v.name} · ${v.member}` : v.name), el("span", { className: "chip" }, v.dtype), el("span", { className: "chip" }, v.local ? `local, ${extents(v.shape)}` : `${extents(v.shape)}${grows}`),
      v.axes.length ? el("span", { className: "said" }, v.axes.join(", ")) : null, v.title ? el("span", { className: "said" }, v.title) : null), tabs, panel);
    this.tab(TABS.some(([id]) => id === state.tab) ? state.tab : "values");
  },

  tab(id) {
    const { state, variable: v } = this;
    state.tab = id;
    this.panel?.stop?.();
    for (const [name] of TABS) {
      at(`tab-${name}`).setAttribute("aria-selected", String(name === id));
      at(`tab-${name}`).tabIndex = name === id ? 0 : -1;
    }
    if (id === "about") {
      this.panel = null;
      const cut = el("span", { id: "cut" }, v.chunks ? extents(v.chunks) : "…");
      ask("cut", { name: v.name }).then(({ cuts }) => { if (cuts.length) cut.textContent = cuts.map((one) => (one ? extents(one) : "whole blocks")).join("; "); else if (!v.chunks) cut.textContent = "no block is written yet"; })
        .catch((error) => { if (!(error instanceof Refused)) throw error; cut.textContent = v.chunks ? extents(v.chunks) : "not known"; });
      replace(at("panel"), el("div", { className: "cards" }, el("div", { className: "card" }, el("h2", {}, "Variable"), facts([
        ["path", v.name], ["member", v.member], ["type", v.dtype], ["shape", extents(v.shape)], ["axes", v.axes.join(", ")], ["steps", v.has_steps ? String(v.steps.length) : "none: one array"], ["in memory", bytes(v.bytes)],
        ["transform", v.transform ?? "none"], ["cut into", cut], ["fill value", v.fill ?? "zero"],
        ...(v.derived ? ["derived by", "stored of it", "edge"].map((name, n) => [name, v.derived[n]]) : []),
      ])), el("div", { className: "card wide" }, el("h2", {}, "Attributes"), attributes(v.attributes))));
    } else {
      this.panel = new ({ values: Values, layout: Layout, statistics: Statistics }[id])(this, v, state);
      replace(at("panel"), this.panel.root);
    }
    this.remember();
  },
};

const tree = new Tree(at("tree"), (path) => { fold(true); app.open(path); });

// On a narrow screen the names are above the data: they collapse when one is selected.
function fold(folded) {
  document.body.dataset.names = folded ? "folded" : "open";
  at("names").setAttribute("aria-expanded", String(!folded));
}

function snapshots(found) {
  const chosen = lookedAt();
  app.newest = chosen === null ? found.snapshot : app.newest;
  replace(at("snapshot"), option("", `newest (${app.newest})`, chosen === null), found.snapshots.map((one) => option(one.number, `${one.number}${one.time ? ` · ${one.time}` : ""}`, one.number === chosen)));
}

async function reload() {
  tree.show(await ask("tree"));
  const { state, variable } = app;
  // If the last step is shown, the view moves on to a newer one.
  if (state.name && variable?.has_steps && !variable.local && state.index && state.index[0] === variable.shape[0] - 1) {
    const found = await ask("variable", { name: state.name, member: state.member });
    if (!state.shown?.includes(0)) state.index[0] = found.shape[0] - 1;
    if (state.region) delete state.region[0];
  }
  await app.show();
}

let unanswered = false; // the page reports that the server did not answer

async function look() {
  if (at("follow").checked && lookedAt() === null && !document.hidden) {
    try {
      const found = await ask("state");
      if (unanswered) app.problem(null);
      unanswered = false;
      if (app.newest !== null && found.snapshot !== app.newest) {
        app.newest = found.snapshot;
        snapshots(await ask("container"));
        await reload();
      }
    } catch (error) {
      unanswered = true;
      app.problem(error.message);
    }
  }
  setTimeout(look, 1000);
}

function read() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  const state = { tab: "values" };
  for (const [key, value] of new URLSearchParams(query)) {
    if (["index", "shown", "region", "pin", "besideOwn"].includes(key)) { try { state[key] = JSON.parse(value); } catch { /* an address that was cut */ } } else if (["low", "high", "along", "layoutStep"].includes(key)) state[key] = Number(value);
    else state[key] = value === "true" ? true : value;
  }
  try { state.name = decodeURIComponent(name); } catch { state.name = ""; }
  app.state = state;
}

at("names").addEventListener("click", () => fold(document.body.dataset.names !== "folded"));
at("home").addEventListener("click", () => app.open("", {}));
at("snapshot").addEventListener("change", async (event) => {
  lookAt(event.target.value === "" ? null : Number(event.target.value));
  at("follow").disabled = lookedAt() !== null;
  try { await reload(); } catch (error) { app.problem(error.message); }
});
at("filter").addEventListener("input", (event) => tree.narrow(event.target.value));
at("theme").addEventListener("click", () => dress(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) { event.preventDefault(); fold(false); at("filter").focus(); }
});
window.addEventListener("popstate", () => { read(); app.show(); });
window.addEventListener("unhandledrejection", (event) => app.problem(event.reason?.message ?? String(event.reason)));
window.addEventListener("error", (event) => app.problem(event.message));

function dress(name, keep = false) {
  document.documentElement.dataset.theme = name;
  if (keep) { try { localStorage.setItem("drystone-theme", name); } catch { /* not kept */ } }
  app.panel?.image?.canvas.repaint();
  app.panel?.line?.canvas.repaint();
  app.panel?.map?.repaint();
  for (const one of document.querySelectorAll("canvas")) one.repaint?.();
}

let theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
try { theme = localStorage.getItem("drystone-theme") ?? theme; } catch { /* not kept */ }
dress(theme);
read();
fold(Boolean(app.state.name));
try {
  const found = await ask("container");
  at("where").textContent = found.name;
  snapshots(found);
  tree.show(await ask("tree"));
  await app.show();
} catch (error) {
  app.problem(error.message);
}
document.body.dataset.ready = "yes";
look();
