"""How the page of a receipt looks, on a screen and on paper."""

STYLE = """\
:root { color-scheme: light; --ink: #1b2330; --soft: #5a6577; --line: #d9dee6; --pale: #f5f7fa; --mark: #0b6b4f; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--pale); color: var(--ink); font: 15px/1.55 system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
main { max-width: 62rem; margin: 2rem auto; padding: 2.5rem 3rem; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; }
header { border-bottom: 3px solid var(--mark); padding-bottom: 1.25rem; }
.kind { margin: 0; color: var(--mark); font-weight: 600; letter-spacing: .06em; text-transform: uppercase; font-size: .8rem; }
h1 { margin: .1rem 0 .5rem; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h1 span { font-weight: 400; color: var(--soft); }
h2 { margin: 2.25rem 0 .75rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
h3 { margin: 1.4rem 0 .4rem; font-size: .95rem; }
p { margin: .5rem 0; }
.none { color: var(--soft); }
.tiles { list-style: none; display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin: 1.25rem 0 0; padding: 0; }
.tiles li { border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; color: var(--soft); font-size: .85rem;
  line-height: 1.35; }
.tiles b { display: block; font-size: 1.5rem; color: var(--ink); font-variant-numeric: tabular-nums; }
table { width: 100%; border-collapse: collapse; font-size: .87rem; }
th { text-align: left; vertical-align: bottom; color: var(--soft); font-weight: 600; line-height: 1.3; }
th, td { padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th:last-child, td:last-child { padding-right: 0; }
td { vertical-align: top; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
td time { white-space: nowrap; }
code, pre { font: .92em/1.45 ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
pre { background: var(--pale); border: 1px solid var(--line); border-radius: 4px; padding: .6rem .8rem; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .3rem 1.25rem; margin: .75rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
footer { margin-top: 2.5rem; padding-top: .75rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; }
@media screen and (max-width: 50rem) {
  main { margin: 0; padding: 1.25rem 1rem; border: 0; border-radius: 0; }
  h1 { font-size: 1.5rem; }
  .tiles { grid-template-columns: repeat(2, 1fr); }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; width: 100%; }
  tr { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .7rem; margin-bottom: .6rem; }
  td, td.n { display: grid; grid-template-columns: 8.5rem 1fr; gap: .75rem; text-align: left; overflow-wrap: anywhere;
    border: 0; padding: .15rem 0; }
  td::before { content: attr(data-label); color: var(--soft); }
}
@media print {
  @page { margin: 16mm 14mm; }
  body { background: #fff; font-size: 10pt; }
  main { max-width: none; margin: 0; padding: 0; border: 0; }
  h2, h3 { break-after: avoid; }
  tr, dl, pre, .tiles li { break-inside: avoid; }
  thead { display: table-header-group; }
  table { font-size: 8.5pt; }
}
"""
