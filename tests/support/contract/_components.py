"""Every way in which a component is printed or serialised."""

import json
from functools import partial

from support.contract._reading import text_of
from support.contract._sources import installed

_METHODS = ("model_dump", "model_dump_json", "to_dict", "to_json", "dict", "json")


def texts_of_component(component):
    """Form -> text; of a form that fails, its error. LangChain's ``dumps`` is tried on all."""
    forms = {make.__name__: partial(make, component) for make in (repr, str, format)}
    methods = {name: getattr(component, name, None) for name in _METHODS}
    forms |= {name: method for name, method in methods.items() if callable(method)}
    if installed("langchain_core"):
        from langchain_core.load import dumps

        forms["dumps"] = partial(dumps, component)
    texts = {}
    for form, make in forms.items():
        try:
            made = make()
            texts[form] = made if isinstance(made, str) else json.dumps(made, default=repr)
        except Exception as error:  # refusing is fine, if it is said without text
            texts[form] = text_of(error)
    return texts
