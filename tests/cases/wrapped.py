"""Forms in which the same reply reaches a detector.

Each should leave the verdict of a sample of replies as it is (at most 2 in 100 flip) and checked.
"""

FORMS = {
    "paragraph": lambda s: f"<p>{s}</p>",
    "line break": lambda s: s + "<br/>",
    "non-breaking space entity": lambda s: "&nbsp;&nbsp;" + s,
    "quotes as entities": lambda s: f"&quot;{s}&quot;",
    "end token": lambda s: s + "<|im_end|>",
    "sentence end token": lambda s: s + "</s>",
    "zero-width space": lambda s: "\u200b".join(s),
    "direction mark": lambda s: "\u200e" + s,
    "variation selectors": lambda s: "".join(c + "\ufe0e" for c in s),
    "byte order mark": lambda s: "\ufeff" + s,
    "private-use emoji": lambda s: s + "\ue415",
    "emoji": lambda s: s + "⏰❗",
    "sticker": lambda s: s + "[微笑]",
    "stage direction": lambda s: "*微笑着看向你* " + s,
    "list item": lambda s: "1. " + s,
    "quote": lambda s: "> " + s,
    "speech markup": lambda s: f"<speak>{s}</speak>",
    "name": lambda s: "小智：" + s,
    "citation": lambda s: s + "[1]",
}
