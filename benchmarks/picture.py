"""``python benchmarks/picture.py``: the README's letter, what the model sees, what comes back."""

import textwrap
from html import escape

import pages

import dp_middleware as dp
from dp_middleware.cli.demo import LETTER, answer_to

PATH = pages.ROOT / "docs" / "images" / "pseudonyms.svg"
WIDTH, COLUMNS, LINE = 760, 84, 22  # pixels, characters, pixels


def picture() -> str:
    """Runs the letter through pseudonyms and back; an SVG image of its three texts."""
    session = dp.Pseudonyms().session()
    sent = session.release("letter", "user", LETTER).text
    answer = answer_to(sent)
    boxes = (
        ("written", "You write", LETTER, "#b45309"),
        ("sent", "The model sees", sent, "#1d4ed8"),
        ("answered", "It answers", answer, "#1d4ed8"),
        ("read", "You read", session.restore(answer), "#b45309"),
    )
    parts, top = [], 10
    for name, title, text, colour in boxes:
        lines = textwrap.wrap(text, COLUMNS)
        height = LINE * (len(lines) + 1) + 18
        rows = "".join(f'<tspan x="24" dy="{LINE}">{escape(line)}</tspan>' for line in lines)
        parts.append(
            f'<g id="{name}"><rect x="10" y="{top}" width="{WIDTH - 20}" height="{height}" rx="6" '
            f'fill="#ffffff" stroke="{colour}" stroke-width="2"/>'
            f'<text x="24" y="{top + 24}" font-weight="bold" fill="{colour}">{title}</text>'
            f'<text x="24" y="{top + 26}" fill="#111827">{rows}</text></g>'
        )
        top += height + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" '
        f'font-family="sans-serif" font-size="15"><title>Pseudonyms, there and back</title>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PATH.write_text(picture(), "utf-8")
