"""Turns coloured terminal text on stdin into an SVG picture on stdout.

    ortscope run model.onnx --color always | python3 tools/terminal_svg.py '$ ortscope run model.onnx' > docs/images/run.svg

Arguments are lines shown above the text, such as the command. Only the standard library is used. Bold, dim and the 16
colours are understood; every other escape sequence is left out. Each run of text gets its width in columns, so that the
columns stay aligned with whatever monospace font the viewer has.
"""

import re
import sys
from xml.sax.saxutils import escape

FONT_SIZE = 14
CHAR_WIDTH = 8.4
LINE_HEIGHT = 20
MARGIN = 16
BACKGROUND = "#1b1f24"
FOREGROUND = "#d7dde4"
# Black, red, green, yellow, blue, magenta, cyan, white; the bright eight follow.
COLOURS = ["#5c6672", "#ff7b72", "#6fce7c", "#e5c15c", "#7fb7ff", "#d2a8ff", "#76d6d6", "#d7dde4"] * 2

ESCAPE = re.compile(r"\x1b\[([0-9;:]*)([A-Za-z])")


def runs(line):
    """Splits a line into (column, text, colour, bold, dim)."""
    colour, bold, dim = None, False, False
    column, at, found = 0, 0, []
    for match in [*ESCAPE.finditer(line), None]:
        text = line[at:] if match is None else line[at : match.start()]
        if text:
            found.append((column, text, colour, bold, dim))
            column += len(text)
        if match is None:
            break
        at = match.end()
        if match.group(2) != "m":
            continue
        for code in (int(part or 0) for part in match.group(1).replace(":", ";").split(";")):
            if code == 0:
                colour, bold, dim = None, False, False
            elif code == 1:
                bold = True
            elif code == 2:
                dim = True
            elif code == 22:
                bold = dim = False
            elif 30 <= code <= 37:
                colour = COLOURS[code - 30]
            elif 90 <= code <= 97:
                colour = COLOURS[code - 82]
            elif code == 39:
                colour = None
    return found, column


def pieces(text):
    """Words with their column: runs of blanks are positions, not text."""
    return [(match.start(), match.group()) for match in re.finditer(r"\S+(?: \S+)*", text)]


def svg(lines):
    width = max((runs(line)[1] for line in lines), default=0) * CHAR_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT_SIZE}">',
    ]
    for number, line in enumerate(lines):
        y = MARGIN + number * LINE_HEIGHT + FONT_SIZE
        for column, text, colour, bold, dim in runs(line)[0]:
            style = ' font-weight="bold"' if bold else ""
            style += ' opacity="0.6"' if dim else ""
            for offset, piece in pieces(text):
                x = MARGIN + (column + offset) * CHAR_WIDTH
                length = len(piece) * CHAR_WIDTH
                out.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'fill="{colour or FOREGROUND}"{style}>{escape(piece)}</text>'
                )
    return "\n".join([*out, "</g>", "</svg>"]) + "\n"


def main():
    if any(argument in ("-h", "--help") for argument in sys.argv[1:]):
        print(__doc__.strip())
        return
    above = [f"\x1b[34m{line}\x1b[0m" for line in sys.argv[1:]]
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(svg(above + text.splitlines()).encode("utf-8"))


if __name__ == "__main__":
    main()
