"""How a report looks: on a screen wide or narrow, light or dark, and on paper."""

from base64 import b64encode
from hashlib import sha256
from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #f6f5f2; --surface: #ffffff; --tint: #f4f3ef; --ink: #1a1c20; --muted: #5a5f69; --rule: #e1dfd9;
  --edge: #7d838d; --accent: #1d4f91; --good: #12633b; --good-tint: #e7f3eb; --bad: #a3232b; --bad-tint: #fbeaea;
  --warn: #774a00; --warn-tint: #fcf2da;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #121417; --surface: #1a1d21; --tint: #22262b; --ink: #e9e8e4; --muted: #a6acb6; --rule: #31363d;
    --edge: #858c97; --accent: #93bbf2; --good: #84d3a4; --good-tint: #15301f; --bad: #ff9f99; --bad-tint: #3b1b1c;
    --warn: #efc672; --warn-tint: #33280f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere; hyphens: manual;
  font: 1rem/1.55 Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
code, pre, .word, .detail {
  font-family: ui-monospace, "SF Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-variant-ligatures: none;
}
code { font-size: .9em; }
a { color: var(--accent); text-underline-offset: .18em; text-decoration-thickness: .07em; }
:focus-visible { outline: .19rem solid var(--accent); outline-offset: .16rem; border-radius: .2rem; }
.skip { position: absolute; left: -100vw; top: 0; }
.skip:focus { left: 1rem; top: 1rem; padding: .6rem 1rem; background: var(--surface); z-index: 1; }
.page { max-width: 64rem; margin: 0 auto; padding: 0 1rem; }

header { padding: 3.2rem 0 0; }
.eyebrow { margin: 0; color: var(--muted); font-size: .875rem; letter-spacing: .01em; }
h1, h2, h3, h4 { line-height: 1.22; margin: 0; text-wrap: balance; }
h1 { font-size: clamp(1.75rem, 1.2rem + 2.6vw, 2.75rem); font-weight: 680; letter-spacing: -.024em; margin: .2rem 0 0; }
h1.long { font-size: 1.25rem; letter-spacing: -.01em; }
h1 .version { color: var(--muted); font-weight: 400; }
h2 { font-size: 1.375rem; font-weight: 660; letter-spacing: -.014em; margin: 0 0 .35rem; }
h3 { font-size: 1.125rem; font-weight: 650; letter-spacing: -.008em; }
h4 { font-size: .875rem; font-weight: 640; margin: 1.6rem 0 .5rem; }
p { margin: .5rem 0; max-width: 68ch; }
.lead, .quiet { color: var(--muted); }
.quiet { font-size: .9375rem; }

.verdict {
  display: flex; gap: .8rem; align-items: flex-start; margin: 1.6rem 0 0; padding: 1rem 1.15rem; border-radius: .65rem;
  font-size: 1.125rem; font-weight: 600; line-height: 1.4; max-width: none;
}
.verdict svg { flex: none; width: 1.6rem; height: 1.6rem; }
.verdict small { display: block; font-size: .9375rem; font-weight: 400; color: var(--ink); }
.good { color: var(--good); background: var(--good-tint); }
.bad { color: var(--bad); background: var(--bad-tint); }
.warn { color: var(--warn); background: var(--warn-tint); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1.2rem; }
.figures { margin: 1.6rem 0 0; }
.figures div { display: flex; flex-direction: column-reverse; border-top: 1px solid var(--edge); padding-top: .55rem; }
.figures dt { color: var(--muted); font-size: .875rem; line-height: 1.35; }
.card > p:first-child { margin-top: 0; }
.card > :last-child { margin-bottom: 0; }
.figures dd { margin: 0; font-size: 1.75rem; font-weight: 640; letter-spacing: -.02em; line-height: 1.2; }
.figures dd, td, .number { font-variant-numeric: tabular-nums; }

nav { margin: 1.9rem 0 0; font-size: .9375rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .35rem 1.5rem; list-style: none; margin: 0; padding: 0; }
nav a { display: inline-block; padding: .25rem 0; }

main > section { margin: 3.2rem 0 0; }
.card {
  background: var(--surface); border: 1px solid var(--rule); border-radius: .8rem; padding: 1.3rem 1.4rem;
  margin: 1rem 0 0;
}
.facts { margin: 0; }
.facts > div { display: grid; grid-template-columns: 11rem minmax(0, 1fr); gap: .1rem 1.5rem; padding: .6rem 0; }
.facts > div + div { border-top: 1px solid var(--rule); }
.facts > div:first-child { padding-top: 0; }
.facts > div:last-child { padding-bottom: 0; }
.facts dt { color: var(--muted); font-size: .9375rem; }
.facts dd { margin: 0; }
.facts dd p { margin: .15rem 0 0; color: var(--muted); font-size: .9375rem; }
.claims { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 1.1rem 1.5rem; margin: 0; }
.claims.short { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); }
.claims dt { color: var(--muted); font-size: .9375rem; }
.claims dd { margin: .1rem 0 0; }
.claims dd p { margin: .25rem 0 0; color: var(--muted); font-size: .875rem; line-height: 1.45; }
.facts + .claims { margin-top: 1rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
.chips { list-style: none; display: flex; flex-wrap: wrap; gap: .35rem; margin: 0; padding: 0; }
.chips li { background: var(--tint); border-radius: .35rem; padding: .08rem .5rem; max-width: 100%; }
.chips.muted li { background: none; box-shadow: inset 0 0 0 1px var(--rule); color: var(--muted); }
.hidden-character {
  border: 1px dashed currentcolor; border-radius: .25rem; padding: 0 .25em; margin: 0 .1em; font-size: .8em;
  white-space: nowrap;
}

figure { margin: 1rem 0 0; }
.drawing { display: block; width: 100%; height: auto; }
.wide { display: none; }
.narrow { max-width: 25rem; margin: 0 auto; }
.drawing .box { fill: var(--surface); stroke: var(--edge); }
.drawing .agent .box { fill: var(--ink); stroke: var(--ink); }
.drawing .failed .box { stroke: var(--bad); stroke-dasharray: 4 3; }
.drawing .line, .drawing .cross, .drawing .tick {
  fill: none; stroke: var(--edge); stroke-width: 1.5; stroke-linecap: round; stroke-linejoin: round;
}
.drawing .dead { stroke: var(--bad); stroke-dasharray: 2 5; }
.drawing .cross { stroke: var(--bad); stroke-width: 2.5; }
.drawing text { fill: var(--ink); white-space: pre; }
.drawing .word { font-size: 14px; font-weight: 600; }
.drawing .detail { font-size: 12px; fill: var(--muted); }
.drawing .sans, .drawing .label, .drawing .kind { font-family: inherit; }
.drawing .label { font-size: 12px; fill: var(--muted); }
.drawing .kind { font-size: 12px; }
.drawing .agent text { fill: var(--surface); }
.drawing .word.failed { fill: var(--bad); font-family: inherit; }
.drawing .seal { fill: var(--good); stroke: var(--good); stroke-width: 1.5; }
.drawing .seal.open { fill: none; stroke: var(--edge); }
.drawing .tick { stroke: var(--surface); }
@media (min-width: 58rem) { .wide { display: block; } .narrow { display: none; } }

details { margin: .9rem 0 0; }
summary { cursor: pointer; color: var(--accent); padding: .25rem 0; font-size: .9375rem; width: fit-content; }
table {
  width: 100%; margin: .6rem 0 0; border-collapse: collapse; table-layout: fixed;
  font-size: .9375rem; line-height: 1.45;
}
caption { text-align: left; color: var(--muted); font-size: .875rem; padding: 0 0 .5rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .9rem .5rem 0; font-weight: 400; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--muted); font-size: .8125rem; border-bottom: 1px solid var(--edge); padding-top: 0; }
tbody tr + tr > * { border-top: 1px solid var(--rule); }
.rejections th:nth-child(1) { width: 30%; }
.rejections thead th:nth-child(2) { width: 27%; }
.overview thead th:nth-child(4) { width: 11%; }
.differences thead th:nth-child(1) { width: 26%; }
.differences thead th:nth-child(2) { width: 24%; }

.requirement-head {
  display: flex; flex-wrap: wrap; gap: .5rem .9rem; align-items: baseline; justify-content: space-between;
}
.requirement-head h3 { display: flex; gap: .7rem; min-width: 0; }
.number { color: var(--muted); font-weight: 400; }
.state { font-size: .875rem; font-weight: 600; padding: .12rem .6rem; border-radius: 1rem; }
.chosen { margin: 1rem 0 0; padding: 0 0 1rem; border-bottom: 1px solid var(--rule); }
.chosen code { font-size: 1.0625rem; font-weight: 600; }
.chosen p { margin: .2rem 0 0; color: var(--muted); font-size: .9375rem; }
.chosen + .facts { padding-top: .9rem; }
pre {
  margin: 0; padding: .9rem 1rem; background: var(--tint); border-radius: .5rem; white-space: pre-wrap;
  font-size: .875rem; line-height: 1.6;
}
ol, .plain { padding-left: 1.3rem; margin: .6rem 0 0; }
li + li { margin-top: .2rem; }
.chips li + li, nav li + li { margin-top: 0; }
footer {
  margin: 3.6rem 0 0; padding: 1.2rem 0 3rem; border-top: 1px solid var(--rule);
  color: var(--muted); font-size: .875rem;
}

@media (max-width: 40rem) {
  header { padding-top: 1.8rem; }
  .card { padding: 1.1rem 1rem; }
  figure.card { padding: 1rem .6rem; }
  .facts > div { grid-template-columns: minmax(0, 1fr); }
  .figures { grid-template-columns: 1fr 1fr; }
  table, tbody, tr, th, td, caption { display: block; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; white-space: nowrap; }
  caption { padding: 0 0 .3rem; }
  tbody tr { padding: .65rem 0; }
  tbody tr + tr { border-top: 1px solid var(--rule); }
  tbody tr:first-child { border-top: 1px solid var(--edge); }
  tbody th, tbody td { padding: .1rem 0; border: 0; }
  tbody tr + tr > * { border: 0; }
  tbody th { font-weight: 600; }
  tbody td::before { content: attr(data-label) ": "; color: var(--muted); }
  .rejections td::before { content: none; }
  .rejections th:nth-child(1) { width: auto; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #fff; --surface: #fff; --tint: #f4f3ef; --ink: #1a1c20; --muted: #5a5f69; --rule: #d4d2cc;
    --edge: #7d838d; --accent: #1d4f91; --good: #12633b; --good-tint: #fff; --bad: #a3232b; --bad-tint: #fff;
    --warn: #774a00; --warn-tint: #fff;
  }
  body { font-size: 10pt; }
  .skip, nav, summary { display: none; }
  .wide { display: block; } .narrow { display: none; }
  .verdict, .state { box-shadow: inset 0 0 0 1px currentcolor; }
  .drawing .agent .box { fill: none; } .drawing .agent text { fill: var(--ink); }
  details::details-content { content-visibility: visible; height: auto; }
  h2, h3, h4, caption, thead { break-after: avoid; }
  tr, .node, .verdict { break-inside: avoid; }
  main > section { margin-top: 1.8rem; }
}
@media (forced-colors: active) { .verdict, .state, .chips li { border: 1px solid; } }
"""


def content_security_policy() -> str:
    """What a browser may load for the page: this style, and nothing else."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
