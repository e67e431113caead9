"""The style of pages and images, in CSS; colours of lines after Okabe and Ito (2008)."""

from __future__ import annotations

_LINES = ("#0072b2", "#d55e00", "#009e73", "#b0568f", "#7a6a00", "#2f8fc4", "#b07800", "#6b7480")
_ON_PAPER = "; ".join(f"--c{number}: {colour}" for number, colour in enumerate(_LINES))

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #57606a;
  --rule: #d5dae0; --grid: #e7eaee; --panel: #f6f8fa; --good: #00694e; --bad: #a83200;
  --band: #009e7324; --fault: #d55e0033; --link: #0a58ca;
  COLOURS; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --ink: #e6e9ed; --soft: #a3adb8;
  --rule: #39424c; --grid: #262d35; --panel: #1a2027; --good: #4fd0a5; --bad: #ff9466;
  --band: #4fd0a524; --fault: #ff8b3d40; --link: #7db8ff;
  --c0: #56b4e9; --c1: #ff8b3d; --c2: #35c79b; --c3: #e59ac7; --c4: #f0e442; --c5: #9ad0f5;
  --c6: #f0b429; --c7: #9aa5b1; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--rule); overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.25rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; overflow-wrap: anywhere; } a { color: var(--link); }
code, pre { font: .87em/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); padding: .6rem .8rem; margin: .4rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; border-radius: .4rem; }
.verdict { font-size: 1.1rem; font-weight: 600; margin: .25rem 0 .75rem; }
.better, .ok, .good { color: var(--good); font-weight: 600; }
.worse, .breached, .mixed, .bad { color: var(--bad); font-weight: 600; }
.side { font-weight: 600; border-bottom: 1px solid var(--rule); }
.note { color: var(--soft); font-size: .87rem; }
dl { margin: 0; } dd { margin: 0; overflow-wrap: anywhere; } dt { color: var(--soft); }
.tiles { display: grid; gap: .75rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); }
.tiles div { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.tiles dt { font-size: .85rem; }
.tiles dd { font-size: 1.35rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.facts { display: grid; gap: .3rem 2rem; margin: .75rem 0; font-size: .92rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.facts div { display: grid; grid-template-columns: 7.6rem minmax(0, 1fr); gap: .75rem; }
details { margin: 1rem 0; border-top: 1px solid var(--rule); padding-top: .5rem; }
summary { cursor: pointer; }
summary h2 { display: inline; font-size: 1rem; border: 0; padding: 0; }
.scroll a { white-space: nowrap; }
.scroll { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; }
th, td { padding: .25rem 1rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; } thead th { color: var(--soft); border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
.clauses thead th { white-space: normal; } .clauses td:nth-child(3) { min-width: 17rem; }
tbody tr + tr > * { border-top: 1px solid var(--grid); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.columns { display: grid; gap: 0 2.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.columns > div { min-width: 0; } .columns table { width: 100%; table-layout: fixed; }
.columns th { width: 48%; } .columns td, .columns th { overflow-wrap: anywhere; }
.columns .number { white-space: normal; padding-right: 0; }
.charts, .small-charts { display: grid; gap: 1.5rem 2rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.small-charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { font-weight: 600; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .15rem 0 .35rem; padding: 0;
  list-style: none; font-size: .85rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: .4rem; overflow-wrap: anywhere; }
.legend i { flex: none; width: 1.2rem; border-top: 3px solid var(--of); }
.legend i.dashed { border-top-style: dashed; } .legend i.rule { border-top: 2px dashed var(--c7); }
.legend i.band, .legend i.fault { height: .8rem; border: 0; background: var(--band); }
.legend i.fault { background: var(--fault); }
.legend i.round { width: .6rem; height: .6rem; border: 2px solid var(--of); border-radius: 50%;
  background: var(--of); } .legend i.hollow { background: none; }
.chart { display: grid; grid-template-columns: 4.7rem minmax(0, 1fr); font-size: .8rem;
  color: var(--soft); padding-right: 1.6rem; }
.chart .y-name { grid-column: 1 / 3; padding-bottom: .55rem; min-height: 1.2rem; }
.chart .plot { grid-column: 2; height: 15rem; border-bottom: 1px solid var(--soft); }
.chart.words { grid-template-columns: 7.2rem minmax(0, 1fr); }
.small-charts .plot { height: 6.5rem; }
.plot > svg { display: block; width: 100%; height: 100%; overflow: visible;
  clip-path: inset(-6px); }
.y-marks, .x-marks { position: relative; } .x-marks { grid-column: 2; height: 1.45rem; }
.y-marks span, .x-marks span { position: absolute; white-space: nowrap;
  font-variant-numeric: tabular-nums; line-height: 1.1; }
.y-marks span { right: .5rem; transform: translateY(-50%); }
.x-marks span { top: .35rem; transform: translateX(-50%); }
.x-name { grid-column: 2; text-align: right; }
svg path { vector-effect: non-scaling-stroke; fill: none; }
.grid { stroke: var(--grid); stroke-width: 1; }
.line { stroke: var(--of); stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
.line.thin { stroke-width: 1; } .line.dashed { stroke-dasharray: 5 4; }
.dot { stroke: var(--of); stroke-width: 8; stroke-linecap: round; }
.hole { stroke: var(--paper); stroke-width: 4; stroke-linecap: round; }
.span { stroke: var(--of); stroke-width: 4; stroke-linecap: round; opacity: .55; }
.rule { stroke: var(--c7); stroke-width: 1.5; stroke-dasharray: 4 4; }
.band { fill: var(--band); } .fault { fill: var(--fault); } .tip { fill: transparent; }
.tip:hover { fill: var(--c7); fill-opacity: .18; }
.plot image { image-rendering: pixelated; }
.key i { display: inline-block; width: 6rem; height: .7rem; vertical-align: -.05rem; }
.c0 { --of: var(--c0); } .c1 { --of: var(--c1); } .c2 { --of: var(--c2); } .c3 { --of: var(--c3); }
.c4 { --of: var(--c4); } .c5 { --of: var(--c5); } .c6 { --of: var(--c6); } .c7 { --of: var(--c7); }
.spark { display: block; width: 9rem; height: 1.6rem; }
.bars { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 2fr) max-content;
  gap: .3rem .8rem; align-items: center; font-size: .9rem; margin: .4rem 0; padding: 0; }
.bars .bar { display: block; height: .9rem; background: var(--c0); border-radius: 2px;
  min-width: 2px; }
.bars span { overflow-wrap: anywhere; }
@media (max-width: 560px) {
  main { padding: 1rem .9rem 2rem; } h1 { font-size: 1.35rem; }
  .facts div { grid-template-columns: 7.4rem minmax(0, 1fr); }
  .chart:not(.words) { grid-template-columns: 4.4rem minmax(0, 1fr); padding-right: 1.3rem; }
  .many span:nth-child(even) { display: none; }
  .bars { grid-template-columns: minmax(0, 1fr) max-content; }
  .bars span:nth-child(3n + 1) { grid-column: 1 / 3; } }
@page { size: A4; margin: 12mm 10mm; }
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --rule: #bbb;
    --grid: #e3e3e3; --panel: #f4f4f4; --good: #00694e; --bad: #a83200; --link: #000;
    COLOURS; }
  * { print-color-adjust: exact; } body { font-size: 11px; } main { max-width: none; padding: 0; }
  details::details-content { content-visibility: visible; block-size: auto; opacity: 1; }
  h2, h3 { break-after: avoid; } tr { break-inside: avoid; } .scroll { overflow: visible; }
  .scroll table { width: 100%; } .scroll .number, .scroll a, thead th { white-space: normal; }
  .clauses td:nth-child(3) { min-width: 0; } .clauses :is(td, th) { padding-right: .3rem;
    overflow-wrap: anywhere; } }
""".replace("COLOURS", _ON_PAPER)

# An image has a white ground, and its renderer knows no variables.
IMAGE_STYLE = (
    """
text { font: 12px "DejaVu Sans", "Liberation Sans", "Noto Sans", Helvetica, Arial, sans-serif;
  fill: #57606a; }
.title { font-size: 14px; font-weight: 600; fill: #1b1f24; } .middle { text-anchor: middle; }
.end { text-anchor: end; } .paper { fill: #fff; } image { image-rendering: optimizeSpeed; }
path { fill: none; }
.grid { stroke: #e7eaee; } .line { stroke-width: 1.8; stroke-linecap: round; }
.line.thin { stroke-width: 1; } .line.dashed { stroke-dasharray: 5 4; } .tip { fill: none; }
.dot { stroke-width: 8; stroke-linecap: round; }
.span { stroke-width: 4; stroke-linecap: round; opacity: .55; }
.rule { stroke: #6b7480; stroke-width: 1.5; stroke-dasharray: 4 4; } .band { fill: #009e7324; }
.fault { fill: #d55e0033; }
"""
    + "".join(f".c{number} {{ stroke: {colour}; }}" for number, colour in enumerate(_LINES))
    + """
.hole { stroke: #fff; stroke-width: 4; stroke-linecap: round; }
"""
)
