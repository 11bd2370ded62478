/** The page's half of an explorer: labelled controls, a picture, and the sentence that goes with it. */

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function slider(control, id, choose) {
  const last = control.labels.length - 1;
  const input = element("input", { type: "range", id, min: 0, max: last, step: 1 });
  const value = element("output", { className: "cg-value" });
  value.setAttribute("for", id);
  value.style.minWidth = `${Math.max(...control.labels.map((label) => label.length))}ch`;
  input.addEventListener("input", () => choose(Number(input.value)));
  return {
    node: element("div", { className: "cg-slider" }, element("label", { htmlFor: id }, control.label), input, value),
    inputs: [input],
    show(position) {
      input.value = position;
      value.textContent = control.labels[position];
      input.setAttribute("aria-valuetext", control.labels[position]);
    },
  };
}

function choice(control, id, choose) {
  const inputs = control.labels.map((label, position) => {
    const input = element("input", { type: "radio", name: id, id: `${id}-${position}` });
    input.addEventListener("change", () => choose(position));
    return input;
  });
  const pairs = inputs.map((input, position) =>
    element("label", { htmlFor: input.id }, input, element("span", {}, control.labels[position])),
  );
  return {
    node: element("fieldset", { className: "cg-choice" }, element("legend", {}, control.label), ...pairs),
    inputs,
    show(position) {
      inputs[position].checked = true;
    },
  };
}

function toggle(control, id, choose) {
  const input = element("input", { type: "checkbox", id, role: "switch" });
  const value = element("span", { className: "cg-value" });
  input.addEventListener("change", () => choose(Number(input.checked)));
  return {
    node: element("label", { className: "cg-switch", htmlFor: id }, input, `${control.label}: `, value),
    inputs: [input],
    show(position) {
      input.checked = position === 1;
      value.textContent = control.labels[position];
    },
  };
}

// The widest picture a panel of the usual width holds; shrinking a wider one would make its text too small.
const FITS = 722;
const KINDS = { slider, choice, switch: toggle };

/** Buttons that move the first control by themselves or one step at a time. */
function player(interval, last, position, choose) {
  let timer = null;
  const play = element("button", { type: "button", className: "cg-play" }, "Play");
  const back = element("button", { type: "button" }, "Back");
  const next = element("button", { type: "button" }, "Next");
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const step = (by) => choose(Math.min(last, Math.max(0, position() + by)));
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (position() === last) choose(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!play.isConnected || position() === last) return stop();
      step(1);
    }, interval);
  });
  back.addEventListener("click", () => (stop(), step(-1)));
  next.addEventListener("click", () => (stop(), step(1)));
  return { node: element("div", { className: "cg-player" }, play, back, next), inputs: [play, back, next], stop };
}

function render({ model, el }) {
  // Each view runs its own copy of this module, so a counter would give all of them the same number.
  const id = `cg-${Math.random().toString(36).slice(2)}`;
  const controls = model.get("controls");
  const [width, height] = model.get("size");

  const own = (layer) => layer.replaceAll("cg-id-", `${id}-`);
  const picture = element("div", { className: "cg-picture" });
  picture.innerHTML =
    `<svg role="img" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">` +
    `<g>${own(model.get("base"))}</g><g class="cg-moving"></g></svg>`;
  const svg = picture.firstChild;
  const moving = svg.lastChild;
  const caption = element("p", { className: "cg-caption", role: "status" });
  caption.setAttribute("aria-live", "polite");

  let drawn = null;
  function show() {
    const positions = model.get("positions");
    made.forEach((control, k) => control.show(positions[k]));
    const frame = model.get("frames")[positions.join()];
    if (!frame) return; // the kernel is drawing it
    const parts = model.get("parts");
    const layer = frame.map((part) => parts[part]).join("");
    if (layer !== drawn) moving.innerHTML = own(layer);
    drawn = layer;
    const sentence = model.get("captions")[positions.join()];
    svg.setAttribute("aria-label", `${model.get("title")}. ${sentence}`);
    if (sentence !== caption.textContent) caption.textContent = sentence;
  }

  function chooser(k) {
    return (position) => {
      const positions = [...model.get("positions")];
      if (positions[k] === position) return;
      positions[k] = position;
      model.set("positions", positions);
      model.save_changes();
    };
  }

  const made = controls.map((control, k) => KINDS[control.kind](control, `${id}-${control.name}`, chooser(k)));
  const panel = element("div", { className: "cg-controls" });
  let buttons = null;
  if (model.get("interval")) {
    const last = controls[0].labels.length - 1;
    buttons = player(model.get("interval"), last, () => model.get("positions")[0], chooser(0));
    panel.append(buttons.node);
  }
  panel.append(...made.map((control) => control.node));

  const heading = element("div", { className: "cg-title", id: `${id}-title` }, model.get("title"));
  const root = element("div", { className: "cg", role: "group" }, heading, picture, panel, caption);
  root.setAttribute("aria-labelledby", heading.id);
  if (width > FITS) {
    root.style.maxWidth = `${width + 38}px`;
    picture.classList.add("cg-wide");
    picture.tabIndex = 0; // so that the keyboard can scroll it
  }
  // JupyterLab's shortcuts would take the arrow keys before a slider sees them; it asks the focused element itself.
  root.querySelectorAll("input, button, .cg-wide").forEach((each) => each.setAttribute("data-lm-suppress-shortcuts", "true"));
  const states = controls.reduce((product, control) => product * control.labels.length, 1);
  if (model.alone && Object.keys(model.get("frames")).length < states) {
    made.flatMap((control) => control.inputs).forEach((input) => (input.disabled = true));
    panel.append(element("p", { className: "cg-note" }, "These controls need the notebook and a running kernel."));
  }

  const events = "change:positions change:frames change:captions";
  model.on(events, show);
  show();
  el.append(root);
  return () => {
    buttons?.stop();
    model.off(events, show);
  };
}

export default { render };
