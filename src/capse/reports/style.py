"""The look of a report: one column, light or dark as the reader has it, readable on a phone and on paper."""

STYLESHEET = """
:root { --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --shade: #f3f5f8; --mark: #fff3d6 }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e6e9ed; --faint: #a2abb5; --line: #353b43; --shade: #1e2228; --mark: #3a3120 }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1rem 4rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: .5rem; border-top: 1px solid var(--line) }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem }
p, ul, dl { max-width: 46rem }
li { margin: .35rem 0 }
.note { background: var(--mark); padding: .6rem .8rem; border-left: 4px solid #e69f00 }
.scroll { overflow-x: auto; margin: 1rem 0 }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem 2rem }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--faint); padding-bottom: .3rem }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line) }
th { font-weight: 600 }
thead th { vertical-align: bottom; white-space: normal; max-width: 6.5rem; background: var(--shade) }
tbody th { font-weight: 400 }
th:first-child, .words :is(th, td) { text-align: left }
.main > * { font-weight: 700; background: var(--shade) }
th[scope=rowgroup] { font-weight: 600; padding-top: .8rem }
figure { margin: 1rem 0 }
figure svg { display: block; width: 100%; max-width: 32rem; height: auto }
figure.wide svg { max-width: 52rem }
svg text { font-family: system-ui, sans-serif !important }
figcaption { color: var(--faint); font-size: .9rem }
details { margin: .6rem 0 }
summary { cursor: pointer; padding: .3rem 0 }
pre { background: var(--shade); padding: .8rem; overflow-x: auto; font-size: .85rem; line-height: 1.4 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem }
dt { color: var(--faint) }
dd { margin: 0; overflow-wrap: anywhere }
@media (max-width: 36rem) {
  dl { grid-template-columns: 1fr } dd { margin-bottom: .4rem }
  ul { padding-left: 1.2rem }
  table { font-size: .8rem }
  th, td { padding: .25rem .35rem }
  .words :is(th, td) { white-space: normal }
}
@media print { details > * { display: block } h2 { break-after: avoid } figure, tr { break-inside: avoid } }
"""
