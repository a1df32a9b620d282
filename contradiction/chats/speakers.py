"""The names that files give the two sides of a chat."""

from contradiction.conversation import ASSISTANT, TOOLS, USER

# ShareGPT's names of the speakers -> roles.
SHAREGPT_ROLES = {
    "human": USER, "user": USER, "gpt": ASSISTANT, "assistant": ASSISTANT, "system": "system",
    "function_call": TOOLS[0], "observation": TOOLS[0], "tool": TOOLS[0],
}  # fmt: skip
_USERS = ("用户", "顾客", "客户", "访客", "买家", "问", "user", "human", "customer", "client", "visitor", "u", "q")
_ASSISTANTS = (
    "机器人", "助手", "助理", "客服", "智能客服", "坐席", "座席", "卖家", "商家", "答",
    "ai", "assistant", "bot", "chatbot", "agent", "b", "a",
)  # fmt: skip
# The name of a speaker in a text -> the role.
TEXT_ROLES = {**dict.fromkeys(_USERS, USER), **dict.fromkeys(_ASSISTANTS, ASSISTANT)}
SYSTEM_ROLES = {"系统": "system", "system": "system"}
# The cell of a table -> the role.
CELL_ROLES = {
    **TEXT_ROLES,
    **SHAREGPT_ROLES,
    **SYSTEM_ROLES,
    "developer": "system",
    "function": TOOLS[0],
    "model": ASSISTANT,
}
SPEAKERS = "user or 用户, assistant or 机器人"  # in error messages
