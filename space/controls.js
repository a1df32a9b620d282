// What stands around the chat: the box in which messages are typed, tools, sliders, and examples.

const box = el("textarea", { rows: 1, maxlength: most, id: "cd-box", "aria-label": words.write });
const sides = ["user", "assistant"].map((role) =>
  button(words[role === "user" ? "asUser" : "asBot"], () => { setSide(role); box.focus(); }, { "aria-pressed": "false" }));

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
  setSide(state.side === "user" ? "assistant" : "user");
  judge();
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
const settings = () => Object.entries(body()).filter(([name]) => name !== "messages");
const copies = {
  json: () => JSON.stringify(body(), null, 2),
  curl: () => `curl ${new URL("v1/scan", document.baseURI)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body()))}`,
  python: () => [
    "from contradiction import ContradictionDetector",
    "",
    `detector = ContradictionDetector.from_pretrained(${[JSON.stringify(model), ...settings().map(([name, value]) => `${name}=${value}`)].join(", ")})`,
    `messages = ${JSON.stringify(state.messages, null, 4)}`,
    "for verdict in detector.scan(messages):",
    "    print(verdict.reply, verdict.contradiction, verdict.kind, verdict.certainty, verdict.evidence)",
  ].join("\n"),
};

const pasted = el("textarea", { rows: 10, "aria-label": words.paste, placeholder: words.pasteInfo });
const problem = el("p", { class: "cd-problem", role: "alert" });

async function read() {
  const found = await server.read_pasted(pasted.value);
  if (found.error) problem.textContent = inWords(found.error);
  else { paste.close(); show(found.messages); }
}

const paste = el("dialog", { "aria-label": words.paste },
  el("h3", {}, words.paste), el("p", {}, words.pasteInfo), pasted, problem,
  el("div", { class: "cd-row" }, button(words.read, read, { class: "cd-primary" }), button(words.cancel, () => paste.close())));
const shownText = el("textarea", { rows: 10, readonly: true, "aria-label": words.copy });
const copied = el("dialog", { "aria-label": words.copy }, shownText, el("div", { class: "cd-row" }, button(words.close, () => copied.close())));

// Two sliders that say what they do, by what was measured on the validation split.

const RATES = [0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5].concat(prior === null ? [] : [prior]).sort((one, other) => one - other);
const odds = (share) => share / (1 - share);

function measured() {
  if (!curve.length || prior === null) return words.thresholdInfo;
  const ratio = odds(state.prior) / odds(prior);
  const raw = odds(state.threshold) / ratio / (1 + odds(state.threshold) / ratio);
  const point = curve.filter(([threshold]) => threshold >= raw).pop();
  if (!point) return words.nothingReaches;
  const [, recall, alarms] = point;
  const right = (recall * state.prior) / (recall * state.prior + alarms * (1 - state.prior));
  return fill(words.measured, { recall: percent(recall), alarms: percent(alarms), right: percent(right), rate: percent(state.prior) });
}

function slider(id, label, info, attributes, text, change) {
  const input = el("input", { type: "range", id, "aria-describedby": `${id}-info`, ...attributes });
  const value = el("output", { for: id });
  const update = () => { value.textContent = text(); input.setAttribute("aria-valuetext", text()); meaning.textContent = measured(); };
  input.addEventListener("input", () => { change(Number(input.value)); updates.forEach((each) => each()); });
  input.addEventListener("change", judge);
  updates.push(update);
  return el("div", { class: "cd-slider" }, el("label", { for: id }, label, " ", value), input, el("small", { id: `${id}-info` }, info));
}

const updates = [];
const meaning = el("p", { class: "cd-meaning" });
const opened = fromLink();
const threshold = slider("cd-threshold", words.threshold, words.thresholdInfo,
  { min: 0.05, max: 0.95, step: 0.01, value: state.threshold }, () => percent(state.threshold), (value) => { state.threshold = value; });
const rate = prior === null ? null : slider("cd-rate", words.rate, words.rateInfo,
  { min: 0, max: RATES.length - 1, step: 1, value: Math.max(0, RATES.indexOf(state.prior)) },
  () => percent(state.prior) + (state.prior === prior ? words.ofCdconv : ""), (value) => { state.prior = RATES[value]; });
const reset = button(words.reset, () => {
  Object.assign(state, { threshold: cut, prior });
  threshold.querySelector("input").value = cut;
  if (rate) rate.querySelector("input").value = RATES.indexOf(prior);
  updates.forEach((each) => each());
  judge();
}, { class: "cd-small" });

const wide = matchMedia("(min-width: 900px)").matches;

function pick(messages) {
  show(messages);
  if (!wide) root.scrollIntoView({ block: "start" }); // the examples lie far below the chat
}

function exampleList() {
  const groups = [...new Set(examples.map((each) => each.kind))];
  return groups.map((kind) => el("div", { class: "cd-group" }, el("h4", {}, words[`ex ${kind}`]),
    ...examples.filter((each) => each.kind === kind).map((each) => button(each.title, () => pick(each.messages), { lang: "zh-CN", title: each.title }))));
}

function pairList() {
  return pairs.map(({ messages, one, other }) => el("div", { class: "cd-group cd-pair" },
    el("small", { lang: "zh-CN" }, messages.map((each) => each.content).join(" → ")),
    ...[one, other].map((reply) => button(reply, () => pick([...messages, { role: "assistant", content: reply }]), { lang: "zh-CN" }))));
}

root.append(
  el("section", { class: "cd-chat", "aria-label": words.chat }, status, list,
    el("form", { class: "cd-compose", onsubmit: (event) => { event.preventDefault(); send(); } },
      el("div", { class: "cd-sides", role: "group", "aria-label": words.side }, ...sides), box,
      el("button", { type: "submit", class: "cd-primary" }, words.send)),
    el("div", { class: "cd-row cd-tools" },
      button(words.paste, () => { problem.textContent = ""; paste.showModal(); pasted.focus(); }),
      button(words.clear, () => { show([]); box.focus(); }),
      button(words.copyLink, () => { remember(); copy(location.href, words.linkCopied); }),
      el("span", {}, words.copyAs), ...Object.entries(copies).map(([name, make]) => button(words[`copy ${name}`], () => copy(make(), words.copied))))),
  el("aside", { class: "cd-side" },
    el("details", { open: true }, el("summary", {}, words.examples), el("p", {}, words.examplesInfo), ...exampleList()),
    el("details", { open: wide }, el("summary", {}, words.settings), threshold, rate, meaning, reset),
    el("details", { open: wide }, el("summary", {}, words.pairs), el("p", {}, words.pairsInfo), ...pairList())),
  paste, copied);
updates.forEach((each) => each());
setSide("user");
if (opened) show(state.messages);
else if (status.textContent) draw();
else show([...pairs[0].messages, { role: "assistant", content: pairs[0].one }]);
window.addEventListener("hashchange", () => { if (fromLink()) { updates.forEach((each) => each()); show(state.messages); } });
