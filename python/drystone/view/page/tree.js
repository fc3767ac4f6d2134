// Groups and variables as a tree with keyboard navigation: up, down, left, right, Enter, Home, End.

import { el, replace } from "./dom.js";
import { extents } from "./text.js";

export class Tree {
  constructor(where, chosen) {
    this.where = where;
    this.chosen = chosen; // called with the path of a group or variable
    this.open = new Set();
    this.closed = new Set();
    this.filter = "";
    this.selected = null;
    this.items = { groups: [], variables: [] };
    where.addEventListener("keydown", (event) => this.key(event));
  }

  show(items) {
    this.items = items;
    this.draw();
  }

  narrow(text) {
    this.filter = text.trim().toLowerCase();
    this.draw();
  }

  select(path) {
    this.selected = path;
    const parts = (path ?? "").split("/");
    for (let n = 1; n < parts.length; n += 1) this.open.add(parts.slice(0, n).join("/"));
    this.draw();
  }

  // Nodes by path. Groups that occur only in names of variables are included.
  nested() {
    const root = { path: "", children: new Map() };
    const at = (path) => {
      let node = root;
      for (const part of path.split("/")) {
        if (!node.children.has(part)) node.children.set(part, { path: node.path ? `${node.path}/${part}` : part, name: part, children: new Map() });
        node = node.children.get(part);
      }
      return node;
    };
    const wanted = (path) => !this.filter || path.toLowerCase().includes(this.filter);
    for (const path of this.items.groups) if (wanted(path)) at(path).group = true;
    for (const variable of this.items.variables) if (wanted(variable.name)) at(variable.name).variable = variable;
    return root;
  }

  isOpen(node, depth) {
    if (this.filter) return true;
    return this.open.has(node.path) || (depth < 2 && !this.closed.has(node.path) && this.items.variables.length < 400);
  }

  draw() {
    const had = this.where.contains(document.activeElement) ? document.activeElement.dataset.path : null;
    const list = (node, depth) => {
      const children = [...node.children.values()].sort((a, b) => !!a.variable - !!b.variable || a.name.localeCompare(b.name, "en", { numeric: true }));
      return el("ul", { role: depth ? "group" : "presentation" }, children.slice(0, 2000).map((child) => this.item(child, depth, list)),
        children.length > 2000 ? el("li", { role: "none" }, el("div", { className: "node" }, `… and ${children.length - 2000} more: filter them`)) : null);
    };
    const root = this.nested();
    replace(this.where, root.children.size ? list(root, 0) : el("p", { className: "note" }, this.filter ? "no name has that" : "nothing is in it yet"));
    const all = [...this.where.querySelectorAll('[role="treeitem"]')];
    const stop = all.find((one) => one.dataset.path === (had ?? this.selected)) ?? all[0];
    if (stop) stop.tabIndex = 0;
    if (had !== null) stop?.focus();
    if (this.items.left_out) this.where.append(el("p", { className: "note" }, `${this.items.left_out} names are not shown`));
  }

  item(node, depth, list) {
    const inner = node.children.size > 0;
    const open = inner && this.isOpen(node, depth);
    const v = node.variable;
    const kind = v ? `${v.dtype} ${v.local ? "local" : extents(v.shape)}` : "";
    const fold = el("span", { className: "fold", "aria-hidden": "true", onclick: (event) => { event.stopPropagation(); this.toggle(node, open); } }, inner ? (open ? "▾" : "▸") : "");
    return el("li", {
      role: "treeitem", tabIndex: -1, "data-path": node.path, "aria-selected": String(node.path === this.selected),
      "aria-expanded": inner ? String(open) : null, title: v ? `${node.path}: ${kind}` : node.path,
    },
    el("div", { className: "node", onclick: () => this.chosen(node.path) }, fold, el("span", { className: "name" }, node.name), el("span", { className: "kind" }, kind)),
    open ? list(node, depth + 1) : null);
  }

  toggle(node, open) {
    (open ? this.closed : this.open).add(node.path);
    (open ? this.open : this.closed).delete(node.path);
    this.draw();
  }

  key(event) {
    const all = [...this.where.querySelectorAll('[role="treeitem"]')];
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const item = all[at];
    const { path } = item.dataset;
    const open = item.getAttribute("aria-expanded");
    const go = (to) => { all.forEach((one) => { one.tabIndex = -1; }); if (to) { to.tabIndex = 0; to.focus(); } };
    if (event.key === "ArrowDown") go(all[Math.min(all.length - 1, at + 1)]);
    else if (event.key === "ArrowUp") go(all[Math.max(0, at - 1)]);
    else if (event.key === "Home") go(all[0]);
    else if (event.key === "End") go(all[all.length - 1]);
    else if (event.key === "Enter" || event.key === " ") this.chosen(path);
    else if (event.key === "ArrowRight" && open === "false") this.toggle({ path }, false);
    else if (event.key === "ArrowLeft" && open === "true") this.toggle({ path }, true);
    else if (event.key === "ArrowLeft") go(item.parentElement.closest('[role="treeitem"]') ?? item);
    else return;
    event.preventDefault();
  }
}
