// What all scripts of the page share: the words in the language of the browser, and elements.
const chinese = /^zh(-|$)/i.test(navigator.language);
const words = props.page.words[chinese ? "zh" : "en"];

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const button = (label, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, label);
