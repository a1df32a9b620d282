// The head of the page, and the switch of the language. The chat stands in the address, so it outlives the reload.
const tables = props.page.words;
const language = /^zh(-|$)/i.test(navigator.language) ? "zh" : "en";
const words = tables[language];
const node = (tag, text, attributes = {}) => {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};
const head = node("div", "");
head.append(node("h1", words.heading), node("p", words.lead));
const choice = node("div", "", { role: "group", "aria-label": words.language, class: "cd-row" });
for (const [name, label] of [["zh", "中文"], ["en", "English"]]) {
  const button = node("button", label, { type: "button", lang: name, "aria-pressed": String(name === language) });
  button.addEventListener("click", () => {
    document.cookie = `cdconv-language=${name}; path=/; max-age=31536000; SameSite=Lax`;
    location.reload();
  });
  choice.append(button);
}
element.querySelector(".cd-top").append(head, choice);
document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
