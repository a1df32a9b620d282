// The chat: messages that a visitor types, and a mark on each reply of the bot. What people wrote becomes text nodes alone.
const { reasons, kept: keptNames, examples, pairs, detectors, bot, most } = props.page;
const root = element.querySelector(".cd");
const state = { messages: [], side: "user", verdicts: [], clauses: new Map(), editing: null, waiting: false };
const [kept, foreign] = [new RegExp(keptNames, "g"), /[A-Za-z]{2}/];
let asking = null;
setDetector(detectors[0]);

function setDetector(detector) {
  Object.assign(state, { detector, threshold: detector.threshold, prior: detector.prior });
}

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
const sideOf = (role) => (role === "user" ? "user" : "bot");
const percent = (share) => fill(words.percent, { value: (100 * share).toFixed(share < 0.01 ? 1 : 0) });

// As `in_words` of locales.py: a text that is not translated completely stays English.
function inWords(reason) {
  let said = String(reason).replace(/, or set max_turns.*/, ""); // a request can set it, but not a visitor
  if (chinese) {
    const translated = reasons.reduce((text, [pattern, replacement]) => text.replace(new RegExp(pattern, "g"), replacement), said);
    said = foreign.test(translated.replace(kept, "")) ? fill(words.inEnglish, { reason: said }) : translated;
  }
  return said.replace(/messages\[(\d+)\](?: (?=[\u4e00-\u9fff]))?/g, (_, index) => fill(words.message, { number: Number(index) + 1 }));
}

// The link holds the chat behind the #, which browsers send to nobody.

function toLink() {
  const kept = { m: state.messages.map((each) => [each.role === "user" ? 0 : 1, each.content]) };
  if (state.detector !== detectors[0]) kept.d = state.detector.name;
  if (state.threshold !== state.detector.threshold) kept.t = state.threshold;
  if (state.prior !== state.detector.prior) kept.p = state.prior;
  const bytes = new TextEncoder().encode(JSON.stringify(kept));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function fromLink() {
  const found = /^#chat=([\w-]+)$/.exec(location.hash);
  if (!found) return false;
  try {
    const bytes = Uint8Array.from(atob(found[1].replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
    const kept = JSON.parse(new TextDecoder().decode(bytes));
    const share = (value, other) => (typeof value === "number" && value > 0 && value < 1 ? value : other);
    state.messages = kept.m.map(([side, content]) => {
      if (typeof content !== "string") throw new TypeError("content");
      return { role: side ? "assistant" : "user", content };
    });
    setDetector(detectors.find((each) => each.name === kept.d) ?? detectors[0]);
    state.threshold = share(kept.t, state.detector.threshold);
    state.prior = state.detector.prior === null ? null : share(kept.p, state.detector.prior);
    return true;
  } catch {
    say(words.badLink);
    return false;
  }
}

function remember() {
  const hash = state.messages.length ? `#chat=${toLink()}` : "";
  history.replaceState(null, "", location.pathname + location.search + hash);
}

// What is asked of the service: the same body that `curl` would send.

function body(messages = state.messages) {
  const asked = { messages };
  const { threshold, prior } = state.detector;
  if (state.detector !== detectors[0]) asked.detector = state.detector.name;
  if (state.threshold !== threshold || state.prior !== prior) asked.threshold = state.threshold;
  if (state.prior !== prior) asked.prior = state.prior;
  return asked;
}

async function ask(path, asked, signal) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(asked), signal };
  const answer = await fetch(new URL(`v1/${path}`, document.baseURI), request).catch(() => null);
  const said = await answer?.json().catch(() => null); // a proxy before the page answers in HTML
  if (!said) throw new Error(words.unanswered);
  if (!answer.ok) throw new Error(inWords(said.error));
  return said;
}

async function judge() {
  asking?.abort();
  remember();
  state.clauses.clear();
  const replied = state.messages.some((each) => each.role === "assistant");
  list.setAttribute("aria-busy", String(replied));
  if (!replied) {
    state.verdicts = [];
    say(state.messages.length ? words.noReply : words.start);
    return draw();
  }
  asking = new AbortController();
  const mine = asking;
  draw();
  const slow = setTimeout(() => say(words.judging), 400); // milliseconds; sooner, the words would flash
  try {
    const found = (await ask("scan", body(), mine.signal)).verdicts;
    if (mine.signal.aborted) return;
    state.verdicts = found;
    const judged = found.filter((each) => each.contradiction !== null);
    say(summary(), judged.some((each) => each.contradiction) ? "clash" : judged.some((each) => each.checked) ? "fine" : "");
  } catch (error) {
    if (mine.signal.aborted) return;
    state.verdicts = [];
    say(fill(words.refused, { reason: error.message }));
  } finally {
    clearTimeout(slow);
  }
  list.setAttribute("aria-busy", "false");
  draw();
}

// What was found in the replies that were read completely; the others are counted apart.
function summary() {
  const judged = state.verdicts.filter((each) => each.contradiction !== null);
  const read = judged.filter((each) => each.checked);
  const found = read.filter((each) => each.contradiction).length;
  const said = read.length ? [fill(found ? words.found : words.fine, { found, replies: read.length })] : [];
  const parts = judged.length - read.length;
  if (parts) said.push(fill(words.partly, { parts, found: judged.filter((each) => each.contradiction).length - found }));
  return said.join(chinese ? "" : " ") || words.noneJudged;
}

async function findClauses(verdict) {
  const last = verdict.reply.at(-1);
  const mine = asking; // aborted once the chat is another one, in which the clauses would stand elsewhere
  try {
    const { clauses } = await ask("clauses", body(state.messages.slice(0, last + 1)), mine.signal);
    if (mine.signal.aborted) return;
    const both = new Map();
    for (const each of clauses) both.set(each.message, [...(both.get(each.message) ?? []), each]);
    state.clauses = both;
    say(clauses.length ? words.clausesShown : words.noClauses);
  } catch (error) {
    if (mine.signal.aborted) return;
    say(fill(words.refused, { reason: error.message }));
  }
  draw();
}

// What is shown.

const status = el("p", { class: "cd-status", role: "status" });
const lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
const list = el("ol", { class: "cd-messages", "aria-busy": "false" });

const thread = el("div", { class: "cd-thread", tabindex: 0, role: "region", "aria-label": words.chat }, lines, list);
let joins = [];

// Lines in the margin from a reply to the message that it contradicts. The numbers say the same in words.
function join(pairs = joins) {
  joins = pairs;
  lines.setAttribute("aria-hidden", "true");
  lines.setAttribute("height", list.offsetHeight);
  lines.replaceChildren(...pairs.flatMap(([reply, place], index) => {
    const [from, to] = [list.children[reply], list.children[place]];
    if (!from || !to) return [];
    const middle = (each) => each.offsetTop + Math.min(each.offsetHeight / 2, 34);
    const margin = 20 - 5 * (index % 4);
    const [down, up] = [middle(from) + 4 * (index % 4), middle(to) + 4 * (index % 4)];
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${from.offsetLeft} ${down}H${margin + 8}Q${margin} ${down} ${margin} ${down - 8}V${up + 8}` +
      `Q${margin} ${up} ${margin + 8} ${up}H${to.offsetLeft - 2}m-6 -4l6 4l-6 4`);
    return [path];
  }));
}

new ResizeObserver(() => join()).observe(list);

function say(text, kind = "") {
  status.textContent = text;
  status.className = `cd-status ${kind}`;
}

function content(message, index) {
  const text = el("p", { class: "cd-text", lang: "zh-CN" });
  const signs = Array.from(message.content); // as the service counts them
  let at = 0;
  for (const { start, end } of [...(state.clauses.get(index) ?? [])].sort((one, other) => one.start - other.start)) {
    text.append(signs.slice(at, start).join(""), el("mark", {}, signs.slice(start, end).join("")));
    at = end;
  }
  text.append(signs.slice(at).join(""));
  return text;
}

function jump(index) {
  const target = list.children[index];
  target.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  target.classList.add("cd-shown");
  setTimeout(() => target.classList.remove("cd-shown"), 1600);
}

const link = (index) =>
  button(String(index + 1), () => jump(index), { class: "cd-ref", "aria-label": fill(words.message, { number: index + 1 }) });

// The first reply, which nothing precedes, has a threshold of its own, unless the visitor sets one.
function thresholdOf(verdict) {
  const { threshold, prior, opening } = state.detector;
  const isOpening = verdict === state.verdicts[0] && state.threshold === threshold && state.prior === prior;
  return isOpening ? Math.max(threshold, opening) : state.threshold;
}

function meter(verdict) {
  const bar = el("span", { class: "cd-meter", "aria-hidden": true }, el("i"), el("u"));
  bar.firstChild.style.width = `${100 * verdict.probability}%`;
  bar.lastChild.style.left = `${100 * thresholdOf(verdict)}%`;
  return bar;
}

function mark(verdict) {
  if (verdict.contradiction === null) {
    return el("div", { class: "cd-mark none" }, `${words.notJudged}${words.colon}${inWords(verdict.reason)}${words.stop}`);
  }
  const said = verdict.contradiction ? ["✗", words.clash] : ["✓", words.noClash];
  const head = el("div", { class: "cd-said" },
    el("b", {}, el("span", { "aria-hidden": true }, `${said[0]} `), said[1]), el("span", {}, words[verdict.certainty]),
    el("span", { class: "cd-chance", title: words.chanceInfo }, meter(verdict), fill(words.chance, { chance: percent(verdict.probability) })));
  const more = el("div", { class: "cd-more" });
  if (verdict.kind) more.append(el("span", {}, words[verdict.kind]));
  if (verdict.evidence.length) more.append(el("span", {}, `${words.against} `, ...verdict.evidence.map(link)));
  if (verdict.kind === "history" || verdict.kind === "intra-sentence") {
    more.append(button(words.clauses, () => findClauses(verdict), { class: "cd-small" }));
  }
  if (!verdict.checked) more.append(el("span", { class: "cd-unread" }, `${words.unread}${words.colon}${inWords(verdict.reason)}`));
  return el("div", { class: `cd-mark ${verdict.contradiction ? "clash" : "fine"}` }, head, more.childNodes.length ? more : null);
}

// Made once for an edit, and drawn again as it is: a verdict or a reply that comes meanwhile takes no typed text away.
function edit(message) {
  const box = el("textarea", { rows: 2, maxlength: most, "aria-label": words.edit });
  const close = () => {
    const index = state.messages.indexOf(message);
    state.editing = null;
    draw();
    list.children[index]?.querySelector(".cd-small")?.focus();
  };
  const save = () => {
    hush();
    if (box.value.trim()) message.content = box.value.trim();
    close();
    judge();
  };
  box.value = message.content;
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); save(); }
    if (event.key === "Escape") close();
  });
  box.addEventListener("compositionstart", () => { state.composing = true; });
  box.addEventListener("compositionend", () => { state.composing = false; draw(); });
  state.composing = false;
  state.editing = { message, box, editor: el("div", { class: "cd-edit" }, box, button(words.save, save), button(words.cancel, close)) };
  draw();
}

function draw() {
  if (state.editing && state.composing) return; // drawing would end the composition of Chinese characters
  const byReply = new Map(state.verdicts.filter((each) => each.reply.length).map((each) => [each.reply.at(-1), each]));
  const hit = new Map();
  for (const [index, verdict] of byReply) for (const place of verdict.evidence) hit.set(place, [...(hit.get(place) ?? []), index]);
  list.replaceChildren(...state.messages.map((message, index) => {
    const verdict = byReply.get(index);
    const side = sideOf(message.role);
    const kind = verdict?.contradiction ? "clash" : hit.has(index) ? "hit" : verdict?.contradiction === false ? "fine" : "";
    const remove = () => { hush(); state.messages.splice(index, 1); judge(); box.focus(); };
    const number = { number: index + 1 };
    return el("li", { class: `${side} ${kind}` },
      el("div", { class: "cd-head" },
        el("span", { class: "cd-number" }, String(index + 1)), el("span", {}, words[side]),
        button("✎", () => edit(message), { class: "cd-small", "aria-label": `${words.edit} ${fill(words.message, number)}`, title: words.edit }),
        button("✕", remove, { class: "cd-small", "aria-label": `${words.remove} ${fill(words.message, number)}`, title: words.remove })),
      state.editing?.message === message ? state.editing.editor : content(message, index),
      hit.has(index) ? el("div", { class: "cd-hit" }, `${words.by} `, ...hit.get(index).map(link)) : null,
      verdict ? mark(verdict) : null);
  }));
  if (state.waiting) list.append(el("li", { class: "bot cd-waiting" }, fill(words.botWrites, { bot })));
  join([...hit].flatMap(([place, replies]) => replies.map((reply) => [reply, place])));
  if (state.editing && document.activeElement === document.body) state.editing.box.focus(); // drawing takes the focus away
  again.hidden = state.waiting || state.messages.at(-1)?.role !== "user";
}

// Shows another chat. The Back button of the browser then shows this one.
function leaveFor(messages) {
  if (state.messages.length) history.pushState(null, "", location.href);
  return show(messages);
}

function show(messages) {
  hush();
  Object.assign(state, { messages: messages.map((each) => ({ ...each })), verdicts: [], editing: null });
  setSide(messages.at(-1)?.role === "user" ? "assistant" : "user");
  return judge();
}
