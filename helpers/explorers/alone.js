/** Explorers on a page of their own: the state lies in the page, and nobody answers. */

const { modules, states } = JSON.parse(document.getElementById("explorers").textContent);

function model(state) {
  const watchers = new Set();
  return {
    alone: true,
    get: (name) => state[name],
    set: (name, value) => (state[name] = value),
    save_changes: () => watchers.forEach((watcher) => watcher()),
    on: (_, watcher) => watchers.add(watcher),
    off: (_, watcher) => watchers.delete(watcher),
  };
}

const loaded = await Promise.all(
  modules.map((source) => import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })))),
);
for (const el of document.querySelectorAll("[data-explorer]")) {
  const state = states[el.dataset.explorer];
  loaded[state.module].default.render({ model: model(state), el });
}
