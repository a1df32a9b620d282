// How programs ask for the same verdicts, at the address of this page.
const words = props.page.words[/^zh(-|$)/i.test(navigator.language) ? "zh" : "en"];
const at = (path) => new URL(path, document.baseURI).href;
const chat = [["user", "你养猫吗？"], ["assistant", "养了一只橘猫"], ["user", "它叫什么名字？"], ["assistant", "我没养过猫呀"]];
const messages = `[\n${chat.map(([role, content]) => `    {"role": "${role}", "content": "${content}"}`).join(",\n")}\n]`;
const show = "for verdict in verdicts:\n    print";
const node = (tag, text, attributes = {}) => {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};
const code = (text, name) => node("pre", text, { tabindex: "0", "aria-label": name });
const part = (name, info, text) => {
  const made = node("section", "", { class: "cd-card" });
  made.append(node("h3", words[name]));
  if (info) made.append(node("p", words[info]));
  made.append(code(text, words[name]));
  return made;
};
element.querySelector(".cd-code").append(
  node("p", words.codeLead),
  part("codeRest", "codeRestInfo", `curl ${at("v1/scan")} \\
  -H 'content-type: application/json' \\
  -d '{"messages": ${messages}}'`),
  part("codeLibrary", null, `from contradiction import ContradictionDetector

detector = ContradictionDetector.from_pretrained("${props.page.model}")
verdicts = detector.scan(${messages})
${show}(verdict.contradiction, verdict.kind, verdict.evidence)`),
  part("codeClient", null, `from gradio_client import Client

verdicts = Client("${at(".")}").predict(${messages}, api_name="/scan")
${show}(verdict["contradiction"], verdict["kind"], verdict["evidence"])`),
  part("codeMcp", "codeMcpInfo", JSON.stringify({ mcpServers: { cdconv: { url: at("gradio_api/mcp/") } } }, null, 2)));
