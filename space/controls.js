// What stands around the chat: the box in which messages are typed, tools, sliders, and examples.

const box = el("textarea", { rows: 1, maxlength: most, id: "cd-box", "aria-label": words.write });
const sides = ["user", "assistant"].map((role) =>
  button(words[sideOf(role)], () => { setSide(role); box.focus(); }, { "aria-pressed": "false" }));

function setSide(role) {
  state.side = role;
  sides.forEach((each, index) => each.setAttribute("aria-pressed", String((index === 0) === (role === "user"))));
  box.placeholder = words[role === "user" ? "writeUser" : "writeBot"];
}

function send() {
  const text = box.value.trim();
  if (!text) return;
  state.messages.push({ role: state.side, content: text });
  box.value = "";
  hush();
  if (bot !== null && auto.checked && state.side === "user") return reply();
  setSide(state.side === "user" ? "assistant" : "user");
  return judge();
}

box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    say(said);
  } catch { // where a browser keeps the clipboard from pages
    shownText.value = text;
    copied.showModal();
    shownText.select();
  }
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;
const settings = () => Object.entries(body()).filter(([name]) => name !== "messages" && name !== "detector");
const copies = {
  json: () => JSON.stringify(body(), null, 2),
  curl: () => `curl ${new URL("v1/scan", document.baseURI)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body()))}`,
  python: () => [
    "from contradiction import ContradictionDetector",
    "",
    `detector = ContradictionDetector.from_pretrained(${[JSON.stringify(state.detector.model), ...settings().map(([name, value]) => `${name}=${value}`)].join(", ")})`,
    `messages = ${JSON.stringify(state.messages, null, 4)}`,
    "for verdict in detector.scan(messages):",
    "    print(verdict.reply, verdict.contradiction, verdict.kind, verdict.certainty, verdict.evidence)",
  ].join("\n"),
};

const pasted = el("textarea", { rows: 10, "aria-label": words.paste, placeholder: "用户：\n机器人：" });
const problem = el("p", { class: "cd-problem", role: "alert" });

async function read() {
  const found = await server.read_pasted(pasted.value);
  if (found.error) problem.textContent = inWords(found.error);
  else { paste.close(); leaveFor(found.messages); }
}

const paste = el("dialog", { "aria-label": words.paste },
  el("h3", {}, words.paste), el("p", {}, words.pasteInfo), pasted, problem,
  el("div", { class: "cd-row" }, button(words.read, read, { class: "cd-primary" }), button(words.cancel, () => paste.close())));
const shownText = el("textarea", { rows: 10, readonly: true, "aria-label": words.copy });
const copied = el("dialog", { "aria-label": words.copy }, shownText, el("div", { class: "cd-row" }, button(words.close, () => copied.close())));

const wide = matchMedia("(min-width: 900px)").matches;

function pick(messages) {
  leaveFor(messages);
  thread.scrollTo(0, 0);
  if (!wide) root.scrollIntoView({ block: "start" }); // the examples lie far below the chat
}

// The two replies of a pair with what differs in bold.
function turned(reply, other) {
  const [signs, others] = [Array.from(reply), Array.from(other)];
  let [start, end] = [0, 0];
  const least = Math.min(signs.length, others.length);
  while (start < least && signs[start] === others[start]) start += 1;
  while (end < least - start && signs[signs.length - 1 - end] === others[others.length - 1 - end]) end += 1;
  const middle = signs.slice(start, signs.length - end).join("");
  return [signs.slice(0, start).join(""), el("b", {}, middle), signs.slice(signs.length - end).join("")];
}

function pairList() {
  return pairs.map(({ messages, one, other }) => el("div", { class: "cd-group cd-pair" },
    el("small", { lang: "zh-CN" }, messages.map((each) => each.content).join(" → ")),
    ...[[one, other], [other, one]].map(([reply, against]) => {
      const choice = button("", () => pick([...messages, { role: "assistant", content: reply }]), { lang: "zh-CN" });
      choice.append(...turned(reply, against));
      return choice;
    })));
}

function exampleList(by) {
  const its = examples.filter((each) => each.by === by);
  return [...new Set(its.map((each) => each.kind))].map((kind) => el("div", { class: "cd-group" }, el("h4", {}, words[`ex ${kind}`]),
    ...its.filter((each) => each.kind === kind).map((each) => {
      const [said, answer] = each.title;
      const choice = button(said, () => pick(each.messages), { lang: "zh-CN" });
      if (answer) choice.append(el("br"), el("span", { "aria-hidden": true }, "→ "), answer);
      return choice;
    })));
}

const shown = el("div", { class: "cd-examples" });
const sorts = ["pairs", "category", "trigger", "persona", "long"].map((by) => button(words[`by ${by}`], () => {
  sorts.forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.by === by)));
  shown.replaceChildren(el("p", {}, by === "pairs" ? words.pairsInfo : words.examplesInfo), ...(by === "pairs" ? pairList() : exampleList(by)));
}, { "data-by": by, "aria-pressed": "false" }));
sorts[0].click();

root.append(
  el("section", { class: "cd-chat cd-card", "aria-label": words.chat }, status, thread,
    el("form", { class: "cd-compose", onsubmit: (event) => { event.preventDefault(); send(); } },
      el("div", { class: "cd-sides", role: "group", "aria-label": words.side }, ...sides), box,
      el("button", { type: "submit", class: "cd-primary" }, words.send)),
    botRow,
    el("div", { class: "cd-row cd-tools" },
      button(words.paste, () => { problem.textContent = ""; paste.showModal(); pasted.focus(); }),
      button(words.clear, () => { leaveFor([]); box.focus(); }),
      button(words.copyLink, () => { remember(); copy(location.href, words.linkCopied); }),
      el("span", {}, words.copyAs), ...Object.entries(copies).map(([name, make]) => button(words[`copy ${name}`], () => copy(make(), words.copied))))),
  el("aside", { class: "cd-side" },
    el("details", { class: "cd-card", open: true }, el("summary", {}, words.examples),
      el("div", { class: "cd-row cd-sorts", role: "group", "aria-label": words.examples }, ...sorts), shown),
    el("details", { class: "cd-card", open: wide }, el("summary", {}, words.settings), picker, threshold, rate, bar, meaning, reset)),
  paste, copied);
refresh();
setSide("user");
if (opened) show(state.messages);
else if (status.textContent) draw();
else show([...pairs[0].messages, { role: "assistant", content: pairs[0].one }]);
window.addEventListener("hashchange", () => {
  if (!location.hash) show([]);
  else if (fromLink()) { refresh(); show(state.messages); }
});
