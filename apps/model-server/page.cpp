// SPDX-License-Identifier: Apache-2.0
#include "page.hpp"

namespace ringload::server {

const std::string_view page = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>model-server</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
table { width: 100%; border-collapse: collapse }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid #ddd;
         overflow-wrap: anywhere }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
progress { width: 9rem }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1.5rem 0 }
input { flex: 1; min-width: 10rem; font: inherit; padding: .3rem }
button { font: inherit; padding: .3rem .8rem }
#problem { color: #a00; min-height: 1.5rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 }
  th, td { border-color: #444 } #problem { color: #f88 } }
</style>
</head>
<body>
<h1>Models</h1>
<table>
<thead><tr><th>id<th>state<th>progress<th>GB/s<th>source<th></tr></thead>
<tbody id="models"></tbody>
</table>
<form id="load">
<input name="source" placeholder="source: a file or folder beneath a root" aria-label="source"
  required>
<input name="id" placeholder="id (optional)" aria-label="id" pattern="[A-Za-z0-9._\-]{1,64}">
<button>Load</button>
</form>
<p id="problem" role="status"></p>
<script>
"use strict";
const models = document.getElementById("models");
const problem = document.getElementById("problem");
const rows = new Map();

async function ask(method, path, body) {
  const options = { method, headers: {} };
  if (body) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const text = await answer.text();
  if (!answer.ok) throw new Error(text ? JSON.parse(text).error : answer.statusText);
  return text ? JSON.parse(text) : null;
}

// Names are untrusted, so they are set as text and never as markup.
function make_row(id) {
  const row = document.createElement("tr");
  const cells = {};
  for (const name of ["id", "state", "progress", "speed", "source", "actions"]) {
    cells[name] = row.appendChild(document.createElement("td"));
  }
  cells.speed.className = "number";
  cells.bar = cells.progress.appendChild(document.createElement("progress"));
  cells.amount = cells.progress.appendChild(document.createElement("div"));
  const drop = cells.actions.appendChild(document.createElement("button"));
  drop.onclick = () => act(() => ask("DELETE", "/models/" + encodeURIComponent(id)));
  cells.drop = drop;
  models.append(row);
  rows.set(id, { row, cells });
  return rows.get(id);
}

function size(bytes) {
  const [unit, name] = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : [1e3, "kB"];
  return (bytes / unit).toFixed(2) + " " + name;
}

function show(model) {
  const { cells } = rows.get(model.id) || make_row(model.id);
  const under_way = ["opening", "loading", "cancelling"].includes(model.state);
  cells.id.textContent = model.id;
  cells.state.textContent = model.state + (model.serving && under_way ? " (one is served)" : "");
  cells.bar.max = model.bytes_total || 1;
  cells.bar.value = model.bytes;
  cells.amount.textContent = size(model.bytes) + " of " + size(model.bytes_total) + ", " +
    model.tensors + " of " + model.tensors_total + " tensors";
  cells.speed.textContent = model.gb_per_s.toFixed(2);
  cells.source.textContent = model.error ? model.source + ": " + model.error : model.source;
  cells.drop.textContent = under_way ? "Cancel" : "Unload";
}

async function refresh() {
  try {
    const all = (await ask("GET", "/models")).models;
    for (const [id, { row }] of rows) {
      if (all.some((model) => model.id === id)) continue;
      row.remove();
      rows.delete(id);
    }
    all.forEach(show);
    document.title = "model-server";
  } catch (failure) {
    document.title = "model-server (no answer)";
  }
}

async function act(what) {
  problem.textContent = "";
  try {
    await what();
  } catch (failure) {
    problem.textContent = failure.message;
  }
  await refresh();
}

document.getElementById("load").onsubmit = (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  const body = { source: form.get("source") };
  if (form.get("id")) body.id = form.get("id");
  act(() => ask("POST", "/models", body));
};

async function forever() {
  for (;;) {
    await refresh();
    await new Promise((wake) => setTimeout(wake, 300));
  }
}
forever();
</script>
</body>
</html>
)html";

}  // namespace ringload::server
