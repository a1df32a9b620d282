// How programs ask for the same verdicts, at the address of this page.
const at = (path) => new URL(path, document.baseURI).href;
const messages = `[\n${props.page.chat.map(({ role, content }) => `    {"role": "${role}", "content": "${content}"}`).join(",\n")}\n]`;
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
