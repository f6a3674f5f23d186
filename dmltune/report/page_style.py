"""How a page of a report looks: on a screen, on a phone, on paper. No file and no script from elsewhere."""

STYLE = """
:root { color-scheme: light; --ink: #1b222b; --soft: #59636f; --line: #dfe3e8; --ground: #f6f7f9; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
header p.path { margin: 0; color: var(--soft); font-size: .9rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .15rem 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .5rem; padding-top: .9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .35rem; }
p { margin: .4rem 0; max-width: 44rem; }
.soft, figcaption { color: var(--soft); font-size: .9em; font-weight: 400; }
.verdict { border-left: 6px solid var(--mark); background: var(--ground); padding: .9rem 1.1rem;
  margin: 1.1rem 0 .9rem; border-radius: 0 6px 6px 0; }
.verdict strong { display: block; font-size: 1.3rem; line-height: 1.3; }
.verdict .figures { font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.better { --mark: #1a7f4b; } .worse { --mark: #b3362b; } .none { --mark: #4d5560; }
.unknown { --mark: #a06a00; } .itself { --mark: #555555; }
.kind { color: var(--mark); font-weight: 500; font-size: .9em; }
ul.cautions { list-style: none; margin: .9rem 0; padding: 0; }
ul.cautions li { border: 1px solid #e3b7b0; background: #fdf3f1; color: #7d2018; border-radius: 6px;
  padding: .5rem .8rem; margin: .4rem 0; }
ul.cautions li::first-letter { text-transform: uppercase; }
.figures-grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr));
  gap: 1rem 2rem; align-items: start; }
figure { margin: .75rem 0; break-inside: avoid; max-width: 28rem; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
figcaption { margin-top: .25rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; font-size: .85rem; vertical-align: bottom; }
tbody th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; }
table.small { font-size: .85rem; }
code, .code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .85em;
  overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .75rem 0; } summary { cursor: pointer; color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 1rem 1rem 3rem; }
  h1 { font-size: 1.45rem; }
  table.narrow { font-size: .85rem; } .narrow :is(th, td) { padding-right: .5rem; overflow-wrap: anywhere; }
  .narrow .number { width: 1%; overflow-wrap: normal; } .narrow thead .number { white-space: normal; }
  table.cards, .cards :is(tbody, tr, th, td) { display: block; }
  .cards thead { display: none; }
  .cards tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .cards :is(th, td) { border: 0; padding: .1rem 0; }
  .cards td { display: flex; justify-content: space-between; gap: 1.5rem; text-align: right; }
  .cards td::before { content: attr(data-label); color: var(--soft); text-align: left;
    font-family: system-ui, sans-serif; white-space: nowrap; }
  .cards td:empty { display: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
}
@media print {
  @page { margin: 16mm; }
  body { font-size: 10pt; }
  table { font-size: .88em; }
  .figures-grid { grid-template-columns: 1fr 1fr; gap: .5rem 1.25rem; }
  main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; }
  tr, .verdict, li { break-inside: avoid; }
  .verdict, ul.cautions li, svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
  summary { display: none; }
}
"""
