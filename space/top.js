// The head of the page, and the switch of the language. The chat stands in the address, so it outlives the reload.
const language = chinese ? "zh" : "en";
function speak(name) {
  document.cookie = `cdconv-language=${name}; path=/; max-age=31536000; SameSite=Lax`;
  location.reload();
}
element.querySelector(".cd-top").append(
  el("div", {}, el("h1", {}, words.heading), el("p", {}, words.lead)),
  el("div", { role: "group", "aria-label": words.language, class: "cd-row" },
    ...[["zh", "中文"], ["en", "English"]].map(([name, label]) =>
      button(label, () => speak(name), { lang: name, "aria-pressed": String(name === language) }))));
document.documentElement.lang = chinese ? "zh-CN" : "en";
document.title = words.title;
