// How programs ask for the same verdicts, at the address of this page.
const at = (path) => new URL(path, document.baseURI).href;
const chat = [["user", "你喜欢吃辣吗？"], ["assistant", "我不吃辣"], ["user", "火锅要什么锅底？"], ["assistant", "要最辣的，我最爱吃辣"]];
const messages = `[\n${chat.map(([role, content]) => `    {"role": "${role}", "content": "${content}"}`).join(",\n")}\n]`;
const show = "for verdict in verdicts:\n    print";
const part = (name, info, text) => el("section", { class: "cd-card" }, el("h3", {}, words[name]),
  info && el("p", {}, words[info]), el("pre", { tabindex: 0, "aria-label": words[name] }, text));
element.querySelector(".cd-code").append(
  el("p", {}, words.codeLead),
  part("codeRest", "codeRestInfo", `curl ${at("v1/scan")} \\
  -H 'content-type: application/json' \\
  -d '{"messages": ${messages}}'`),
  part("codeLibrary", null, `from contradiction import ContradictionDetector

detector = ContradictionDetector.from_pretrained("${props.page.model}")
verdicts = detector.scan(${messages})
${show}(verdict.contradiction, verdict.kind, verdict.evidence)`),
  part("codeClient", null, `from gradio_client import Client

verdicts = Client("${at(".")}").predict(${messages}, api_name="/scan")["verdicts"]
${show}(verdict["contradiction"], verdict["kind"], verdict["evidence"])`),
  part("codeMcp", "codeMcpInfo", JSON.stringify({ mcpServers: { cdconv: { url: at("mcp") } } }, null, 2)));
