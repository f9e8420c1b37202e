"""A remote model that must see no value, and agents that look a person up, for pseudonyms."""

import json
import re

from support.contract import ToolCall
from support.entities import ENTITIES, detector

import dp_middleware as dp


def pseudonyms(entities=ENTITIES, **options):
    return dp.Pseudonyms(detector(entities), on_empty="pass").session(**options)


def _found(pattern, text):
    found = re.search(pattern, str(text))
    assert found
    return found[1]


def name_in(text):
    """The person in a question of the agents."""
    return _found(r"Who is ([\w-]+ [\w-]+)", text)


def calling(request):
    last = request["messages"][-1]
    if last["role"] == "tool":
        return last["content"]
    return [ToolCall(name="look_up", arguments={"name": name_in(last["content"])})]


QUESTIONS = (
    "Where does our customer Mirela Tamburi live?",
    "And what is Mirela's balance?",
    "Write to her, please.",
)
FOUND = "Mirela Tamburi lives in Berlin and has $12,500.00."
ANSWERS = [FOUND, FOUND, "I wrote to Mirela Tamburi."]
ASKED = ["Mirela Tamburi", "Mirela Tamburi", ("Mirela Tamburi", "Dear Tamburi")]
"""What the tools are asked for, over the three turns."""


def customer_in(request):
    return _found(r"customer ([\w-]+ [\w-]+)", request["messages"])


def assistant(request):
    """Looks a customer up, writes to her, and tells what it did."""
    name, last = customer_in(request), request["messages"][-1]
    if last["role"] == "tool" and "sent" in last["content"]:
        return f"I wrote to {name}."
    if last["role"] == "tool":
        found = json.loads(last["content"].replace("'", '"'))
        return f"{name} lives in {found['city']} and has {found['balance']}."
    if "Write" in last["content"]:
        text = f"Dear {name.split()[1]}"
        return [ToolCall(name="write", arguments={"to": name, "text": text}, id="w")]
    number = len(request["messages"])
    return [ToolCall(name="look_up", arguments={"name": name}, id=f"c{number}")]


def customer_tools(asked):
    """Tools that keep what they are asked."""
    customers = {"Mirela Tamburi": {"id": "AB-12345", "city": "Berlin", "balance": "$12,500.00"}}

    def look_up(name: str) -> dict:
        """Look a customer up by name."""
        asked.append(name)
        return customers.get(name, {"error": "unknown"})

    def write(to: str, text: str) -> str:
        """Write to a customer."""
        asked.append((to, text))
        return "sent"

    return [look_up, write]
