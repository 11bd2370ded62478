/** The page's half of a quiz: native radio buttons and check boxes, marked and explained without the kernel. */

/** An element whose text sets `code` between backticks as code. */
function text(tag, className, words) {
  const made = document.createElement(tag);
  made.className = className;
  words.split("`").forEach((part, k) => {
    if (!part) return;
    const node = k % 2 ? document.createElement("code") : document.createElement("span");
    node.textContent = part;
    made.append(node);
  });
  return made;
}

function button(words, action) {
  const made = text("button", "", words);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

const same = (chosen, question) =>
  question.answers.every((answer, k) => answer.right === chosen.includes(k));

/** One question; `answered(positions)` is called when the reader has chosen, `reveal()` shows marks and reasons. */
function ask(question, number, id, chosen, test, answered) {
  const node = document.createElement("fieldset");
  node.className = "cg-question";
  const legend = text("legend", "", `${number}. ${question.text}`);
  const notes = [question.level, question.multiple ? "choose all that apply" : ""].filter(Boolean).join(" · ");
  if (notes) legend.append(text("span", "cg-level", notes));
  node.append(legend);

  const inputs = question.answers.map((answer, k) => {
    const input = document.createElement("input");
    Object.assign(input, { type: question.multiple ? "checkbox" : "radio", name: id, id: `${id}-${k}` });
    input.checked = chosen.includes(k);
    const label = document.createElement("label");
    label.htmlFor = input.id;
    label.append(input, text("span", "", answer.text));
    node.append(label);
    return input;
  });
  const picked = () => inputs.flatMap((input, k) => (input.checked ? [k] : []));
  const verdict = document.createElement("div");
  verdict.className = "cg-verdict";
  verdict.setAttribute("role", "status");

  function reveal() {
    const positions = picked();
    const right = same(positions, question);
    verdict.replaceChildren(text("strong", "", right ? "✓ Right." : positions.length ? "✗ Not quite." : "— Not answered."));
    question.answers.forEach((answer, k) => {
      const taken = positions.includes(k);
      if (!question.multiple && !test) {
        if (taken && answer.why) verdict.append(text("p", "", answer.why));
      } else if (taken || answer.right) {
        const mark = answer.right ? (taken ? "✓" : "○ right:") : "✗";
        verdict.append(text("p", "", `${mark} ${answer.text}${answer.why ? `: ${answer.why}` : ""}`));
      }
    });
    if (question.explanation) verdict.append(text("p", "", question.explanation));
    if (question.see) verdict.append(text("p", "cg-see", `See “${question.see}”${test ? ` in ${question.lesson}` : ""}.`));
    node.dataset.verdict = right ? "right" : "wrong";
  }

  function hide() {
    verdict.replaceChildren();
    delete node.dataset.verdict;
  }

  const changed = () => {
    answered(picked());
    if (!test && !question.multiple) reveal();
    else if (!test) hide();
  };
  inputs.forEach((input) => input.addEventListener("change", changed));
  if (question.multiple && !test) node.append(button("Check", reveal));
  node.append(verdict);
  if (!test && !question.multiple && chosen.length) reveal();
  return {
    node,
    reveal,
    clear() {
      inputs.forEach((input) => (input.checked = false));
      hide();
    },
  };
}

function render({ model, el }) {
  // Each view runs its own copy of this module, so a counter would give all of them the same number.
  const id = `cg-${Math.random().toString(36).slice(2)}`;
  const questions = model.get("questions");
  const test = model.get("test");
  const root = document.createElement("div");
  root.className = "cg cg-quiz";
  root.setAttribute("role", "group");
  const heading = text("div", "cg-title", model.get("title"));
  heading.id = `${id}-title`;
  root.setAttribute("aria-labelledby", heading.id);
  const standing = document.createElement("div");
  standing.className = "cg-standing";
  standing.setAttribute("role", "status");

  function stand() {
    const chosen = model.get("chosen");
    const answered = chosen.filter((each) => each.length).length;
    if (questions.length > 1) standing.textContent = `${answered} of ${questions.length} answered`;
  }

  const asked = questions.map((question, k) =>
    ask(question, k + 1, `${id}-${k}`, model.get("chosen")[k], test, (positions) => {
      const chosen = model.get("chosen").map((each, at) => (at === k ? positions : each));
      model.set("chosen", chosen);
      model.save_changes();
      stand();
    }),
  );

  function mark() {
    asked.forEach((each) => each.reveal());
    const chosen = model.get("chosen");
    const wrong = questions.filter((question, k) => !same(chosen[k], question));
    const lessons = [...new Set(wrong.map((question) => question.lesson).filter(Boolean))].sort();
    standing.replaceChildren(
      text("strong", "", `${questions.length - wrong.length} of ${questions.length} right.`),
      text("span", "", lessons.length ? ` Worth another look: ${lessons.join(", ")}.` : wrong.length ? "" : " Nothing to revisit."),
    );
  }

  function again() {
    asked.forEach((each) => each.clear());
    model.set("chosen", questions.map(() => []));
    model.save_changes();
    stand();
  }

  root.append(heading, ...asked.map((each) => each.node), standing);
  if (test) {
    const buttons = document.createElement("div");
    buttons.className = "cg-player";
    buttons.append(button("Mark my answers", mark), button("Clear", again));
    root.append(buttons);
  }
  // JupyterLab's shortcuts would take the arrow keys before a radio button sees them; it asks the focused element itself.
  root.querySelectorAll("input, button").forEach((each) => each.setAttribute("data-lm-suppress-shortcuts", "true"));
  stand();
  el.append(root);
}

export default { render };
