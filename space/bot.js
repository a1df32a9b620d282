// The connected bot: it answers what the visitor writes as the user. Without one, nothing of this is shown.
let listening = null;
const auto = el("input", { type: "checkbox", checked: true });
const again = button(fill(words.botAgain, { bot }), reply);
const botRow = el("div", { class: "cd-row cd-bot" },
  el("label", {}, auto, " ", fill(words.botReplies, { bot })), again, el("small", {}, fill(words.botInfo, { bot })));
botRow.hidden = bot === null;

// Ends the waiting for a reply, because the chat is another one now.
function hush() {
  listening?.abort();
  listening = null;
  state.waiting = false;
}

async function reply() {
  hush();
  listening = new AbortController();
  const mine = listening;
  state.waiting = true;
  const judged = judge();
  try {
    const said = await ask("reply", { messages: state.messages }, mine.signal);
    if (mine.signal.aborted) return;
    hush();
    state.messages.push({ role: "assistant", content: said.reply });
    setSide("user");
    judge();
  } catch (error) {
    if (mine.signal.aborted) return;
    hush();
    await judged;
    say(fill(words.botSilent, { reason: error.message }));
    draw();
  }
}

auto.addEventListener("change", () => { if (!auto.checked) { hush(); draw(); } });
