"""Every way in which a component is printed or serialised."""

import json
from collections.abc import Callable
from typing import Any

from support.contract._reading import text_of
from support.contract._sources import installed

_METHODS = ("model_dump", "model_dump_json", "to_dict", "to_json", "dict", "json")


def texts_of_component(component: Any) -> dict[str, str]:
    """Form -> text; of a form that fails, its error.

    Args:
        component: Anything; LangChain's ``dumps`` is tried on all, methods where there are any.
    """
    forms: dict[str, Callable[[], Any]] = {
        "repr": lambda: repr(component),
        "str": lambda: str(component),
        "format": lambda: f"{component}",
    }
    for name in _METHODS:
        if callable(method := getattr(component, name, None)):
            forms[name] = method
    if installed("langchain_core"):
        from langchain_core.load import dumps

        forms["dumps"] = lambda: dumps(component)
    texts: dict[str, str] = {}
    for form, make in forms.items():
        try:
            made = make()
            texts[form] = made if isinstance(made, str) else json.dumps(made, default=repr)
        except Exception as error:  # refusing is fine, if it is said without text
            texts[form] = text_of(error)
    return texts
