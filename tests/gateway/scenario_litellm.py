"""The shared scenario through litellm's own client; prints what it was given, as JSON."""

import json
import sys

import litellm

URL, KEY, MODEL, CANARY = sys.argv[1:]
PARAMETERS = {"type": "object", "properties": {"who": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": PARAMETERS}}]


def ask(messages, **more):
    return litellm.completion(
        model=f"openai/{MODEL}",
        api_base=URL,
        api_key=KEY,
        messages=messages,
        tools=TOOLS,
        num_retries=0,
        **more,
    )


messages = [
    {"role": "system", "content": f"{CANARY} system"},
    {"role": "user", "content": f"{CANARY} question"},
]
asked = ask(messages).choices[0].message
call = asked.tool_calls[0]
result = {"role": "tool", "tool_call_id": call.id, "content": f"{CANARY} result"}
messages += [asked.model_dump(), result]
pieces = ask(messages, stream=True)
text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
litellm.embedding(
    model=f"openai/{MODEL}", api_base=URL, api_key=KEY, input=[f"{CANARY} text"], num_retries=0
)
print(json.dumps([call.function.arguments, text]))
