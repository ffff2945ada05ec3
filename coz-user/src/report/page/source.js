// The source around a line, with what each line is worth in the margin.
import { fill, h } from './dom.js';
import { VERDICTS, clean, percent, portion } from './words.js';

/** Lines shown on either side of the selected one. */
const NEAR = 10;

/** A table of source lines: effect, share, number, text. */
export function drawSource(box, model, row, view, choose, change) {
  const parts = row.place ? model.sources.get(row.file) : null;
  if (!parts) {
    const text = row.place ? `The source file was not found when this page was written: ${clean(row.file)}` : 'No source line is known for this place.';
    fill(box, h('p', { class: 'muted' }, text));
    return;
  }
  const profiled = new Map();
  for (const other of model.rows) {
    if (other.point === row.point && other.file === row.file) profiled.set(other.place[1], other);
  }
  const number = row.place[1];
  const wanted = (n) => view.whole || Math.abs(n - number) <= NEAR;
  const body = h('tbody');
  let last = null;
  let all = 0;
  for (const part of parts) {
    part.lines.forEach((text, i) => {
      const n = part.first + i;
      all += 1;
      if (!wanted(n)) return;
      if (last !== null && n !== last + 1) {
        body.append(h('tr', { class: 'gap' }, h('td', { colspan: 4 }, `⋯ ${n - last - 1} lines`)));
      }
      last = n;
      body.append(sourceLine(n, text, profiled.get(n), n === number, choose));
    });
  }
  const table = h(
    'table',
    { class: 'source' },
    h('caption', { class: 'hidden' }, `Source of ${clean(row.file)}`),
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'worth'), h('th', { scope: 'col' }, 'share'), h('th', { scope: 'col' }, 'line'), h('th', { scope: 'col' }, 'source'))),
    body,
  );
  const scroll = h('div', { class: 'scroll code', tabindex: 0, role: 'region', 'aria-label': `Source of ${clean(row.name)}` }, table);
  const more = all > 2 * NEAR + 1 || view.whole
    ? h('button', { type: 'button', class: 'plain', id: 'whole', 'aria-pressed': String(view.whole), onclick: () => change({ whole: !view.whole }) }, view.whole ? 'Only near this line' : 'All of this file that was profiled')
    : null;
  fill(box, h('p', { class: 'path' }, clean(row.file)), scroll, more);
  const here = scroll.querySelector('tr.here');
  if (here) scroll.scrollTop = Math.max(0, here.offsetTop - scroll.clientHeight / 2);
}

function sourceLine(n, text, row, here, choose) {
  const worth = row && row.worth && !row.hidden ? row.worth.effect : null;
  const mark = row ? VERDICTS[row.hidden ? 'untried' : row.verdict] : null;
  const label = h('span', null, worth === null ? '' : percent(worth));
  const verdict = row ? (row.hidden ? 'untried' : row.verdict) : '';
  return h(
    'tr',
    { class: `${here ? 'here ' : ''}${row ? `hot ${verdict}` : ''}`, 'aria-current': here ? 'true' : null },
    h('td', { class: `num ${verdict}` }, worth === null ? '' : h('span', { 'aria-hidden': 'true', title: mark.name }, `${mark.mark} `), label),
    h('td', { class: 'num share' }, row ? portion(row.share) : ''),
    h('td', { class: 'num' }, row && !here ? h('button', { type: 'button', class: 'number', 'aria-label': `Select line ${n}`, onclick: () => choose(row.key) }, String(n)) : String(n)),
    h('td', { class: 'text' }, clean(text.replace(/\t/g, '    '))),
  );
}
