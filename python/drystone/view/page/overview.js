// The whole container, and groups: identity, sizes, uncommitted data, largest variables, attributes.

import { el, facts } from "./dom.js";
import { bytes, count, ratio } from "./text.js";

export function attributes(list) {
  if (!list.length) return el("p", { className: "note" }, "no attributes");
  return el("div", { className: "scroll" }, el("table", { id: "attributes" }, el("thead", {}, el("tr", {}, ["name", "value", "type"].map((name) => el("th", {}, name)))),
    el("tbody", {}, list.map((one) => el("tr", {}, el("td", {}, one.name), el("td", {}, one.value), el("td", { className: "at" }, one.type))))));
}

export function overview(found, open) {
  const files = Object.entries(found.files);
  const most = Math.max(1, ...found.usage.map((one) => one.stored));
  const behind = found.published !== null ? (found.published === found.snapshot ? "up to date" : `at snapshot ${found.published} of ${found.snapshot}`) : "not published";
  return el("div", { className: "cards" },
    el("div", { className: "card" }, el("h2", {}, "Container"), facts([
      ["path", found.path], ["durability", found.durability], ["snapshot", `${found.snapshot}${found.time ? ` of ${found.time}` : ""}`], ["snapshots kept", count(found.snapshot_count)],
      ["steps", found.steps.count ? `${count(found.steps.count)}: ${found.steps.first} to ${found.steps.last}` : "none"], ["holds", `${count(found.variables, "variable")}, ${count(found.groups, "group")}`], ["identity", found.uuid],
    ])),
    el("div", { className: "card" }, el("h2", {}, "Space"), facts([
      ["on disk", `${bytes(found.bytes)} in ${count(files.reduce((all, [, one]) => all + one.files, 0), "file")}`],
      ...files.map(([folder, one]) => [folder === "beside" ? "other files" : folder, bytes(one.bytes)]),
      ["blocks", found.stored ? `${bytes(found.stored)} for ${bytes(found.decoded)} in memory` : "none"], ["compression", found.stored ? ratio(found.stored, found.decoded) : null],
    ])),
    el("div", { className: "card" }, el("h2", {}, "Writing"), facts([
      ["waits in the log", found.backlog], ["writers", Object.entries(found.writers).map(([state, n]) => `${n} ${state}`).join(", ") || "none"], ["run", found.run || null], ["Zarr replica", behind], ["index", count(found.entries, "entry")],
    ]), found.incomplete ? el("p", { className: "note bad", id: "remedy" }, "Steps that not all ranks closed are not visible. If these ranks have died, drystone recover drops the steps and lets a new run begin.") : null, found.notes.map((note) => el("p", { className: "note bad" }, note))),
    found.usage.length ? el("div", { className: "card wide scroll" }, el("h2", {}, "What takes the space"), el("table", { id: "usage" }, el("thead", {}, el("tr", {}, ["variable", "blocks", "subchunks", "stored", "", "ratio", "encoding"].map((name) => el("th", {}, name)))),
      el("tbody", {}, found.usage.map((one) => el("tr", {}, el("td", {}, el("button", { type: "button", className: "link", onclick: () => open(one.name) }, one.name)), el("td", {}, count(one.blocks)), el("td", {}, count(one.subchunks)), el("td", {}, bytes(one.stored)),
        el("td", {}, el("div", { className: "bar" }, el("i", { style: { width: `${(100 * one.stored) / most}%` } }))), el("td", {}, ratio(one.stored, one.decoded)), el("td", {}, one.transforms.join("; "))))))) : null,
    el("div", { className: "card wide" }, el("h2", {}, "Attributes"), attributes(found.attributes)));
}
