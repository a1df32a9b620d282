// The detector, and two sliders that say in numbers of replies what they do. The rates were measured on the validation split.
const odds = (share) => share / (1 - share);
const opened = fromLink();

function rates() {
  const { prior } = state.detector;
  return [0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5].concat(prior === null ? [] : [prior]).sort((one, other) => one - other);
}

// Of 1,000 replies at the base rate: contradictions that are found, that are missed, and others that are called.
function counts() {
  const { curve, prior } = state.detector;
  if (!curve.length || prior === null) return null;
  const ratio = odds(state.prior) / odds(prior);
  const raw = odds(state.threshold) / ratio / (1 + odds(state.threshold) / ratio);
  const [, recall, alarms] = curve.filter(([threshold]) => threshold >= raw).pop() ?? [0, 0, 0];
  const bad = Math.round(1000 * state.prior);
  const found = Math.round(bad * recall);
  return { bad, good: 1000 - bad, found, missed: bad - found, alarms: Math.round((1000 - bad) * alarms) };
}

function measured() {
  const each = counts();
  bar.hidden = each === null;
  if (each === null) return "";
  [each.found, each.missed, each.alarms].forEach((count, index) => { bar.children[index].style.width = `${count / 10}%`; });
  const called = each.found + each.alarms;
  if (!called) return words.nothingReaches;
  return fill(words.measured, { ...each, called, right: percent(each.found / called) });
}

function slider(id, label, info, range, text, change) {
  const input = el("input", { type: "range", id, "aria-describedby": `${id}-info` });
  const value = el("output", { for: id });
  const update = () => { Object.assign(input, range()); value.textContent = text(); input.setAttribute("aria-valuetext", text()); };
  input.addEventListener("input", () => { change(Number(input.value)); refresh(); });
  input.addEventListener("change", judge);
  updates.push(update);
  return el("div", { class: "cd-slider" }, el("label", { for: id }, label, " ", value), input, el("small", { id: `${id}-info` }, info));
}

function refresh() {
  choice.value = state.detector.name;
  rate.hidden = state.detector.prior === null;
  updates.forEach((each) => each());
  meaning.textContent = measured();
}

const updates = [];
const bar = el("div", { class: "cd-bar", "aria-hidden": true }, el("i", { class: "found" }), el("i", { class: "missed" }), el("i", { class: "alarms" }));
const meaning = el("p", { class: "cd-meaning" });
const choice = el("select", { id: "cd-detector" }, ...detectors.map(({ name }) => el("option", { value: name }, name)));
choice.addEventListener("change", () => {
  setDetector(detectors.find((each) => each.name === choice.value));
  refresh();
  judge();
});
const picker = el("div", { class: "cd-slider" }, el("label", { for: "cd-detector" }, words.detector), choice);
picker.hidden = detectors.length === 1;
const threshold = slider("cd-threshold", words.threshold, words.thresholdInfo,
  () => ({ min: 0.05, max: 0.95, step: 0.01, value: state.threshold }), () => percent(state.threshold), (value) => { state.threshold = value; });
const rate = slider("cd-rate", words.rate, words.rateInfo,
  () => ({ min: 0, max: rates().length - 1, step: 1, value: Math.max(0, rates().indexOf(state.prior)) }),
  () => percent(state.prior) + (state.prior === state.detector.prior ? words.ofCdconv : ""), (value) => { state.prior = rates()[value]; });
const reset = button(words.reset, () => { setDetector(state.detector); refresh(); judge(); }, { class: "cd-small" });
