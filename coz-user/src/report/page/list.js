// The list of lines: filters, a sorted table, pages.
import { sparkline } from './curve.js';
import { byId, fill, h } from './dom.js';
import { PAGE, kindOf } from './model.js';
import { VERDICTS, clean, interval, percent, plural, portion, thousands } from './words.js';

/** The controls, made once: they keep their focus while the table changes. */
export function makeFilters(form, change) {
  form.addEventListener('submit', (event) => event.preventDefault());
  const text = h('input', { type: 'search', id: 'text', placeholder: 'file or function', autocomplete: 'off', spellcheck: 'false', oninput: (event) => change({ text: event.target.value, page: 0 }) });
  const file = h('select', { id: 'file', onchange: (event) => change({ file: event.target.value, page: 0 }) });
  const point = h('select', { id: 'point', onchange: (event) => change({ point: event.target.value, page: 0, selected: null }) });
  const verdicts = h('div', { class: 'chips', role: 'group', 'aria-label': 'Verdicts' });
  fill(
    form,
    h('label', null, h('span', null, 'Find'), text),
    h('label', null, h('span', null, 'File'), file),
    h('label', { id: 'point-label' }, h('span', null, 'Point'), point),
    verdicts,
  );
  return { text, file, point, verdicts };
}

function options(select, entries, chosen) {
  const now = [...select.options].map((option) => `${option.value}\u0000${option.text}`).join('\u0001');
  const then = entries.map(([value, text]) => `${value}\u0000${text}`).join('\u0001');
  // Untouched if it is the same, so that an open menu stays open.
  if (now !== then) fill(select, entries.map(([value, text]) => h('option', { value }, text)));
  select.value = chosen;
}

export function updateFilters(filters, model, view, counts, change) {
  if (filters.text.value !== view.text) filters.text.value = view.text;
  options(filters.file, [['', 'all files'], ...model.files.map(({ file, name }) => [file, clean(name)])], view.file);
  options(filters.point, model.points.map((point) => [point.name, clean(point.name)]), view.point);
  byId('point-label').hidden = model.points.length < 2;
  const chips = Object.entries(VERDICTS).filter(([verdict]) => counts[verdict] > 0 || view.verdicts.includes(verdict));
  fill(
    filters.verdicts,
    chips.map(([verdict, { mark, name, means }]) => {
      const on = view.verdicts.includes(verdict);
      const toggled = on ? view.verdicts.filter((other) => other !== verdict) : [...view.verdicts, verdict];
      return h(
        'button',
        { type: 'button', class: `chip ${verdict}`, id: `chip-${verdict}`, 'aria-pressed': String(on), title: means, onclick: () => change({ verdicts: toggled, page: 0 }) },
        h('span', { class: 'mark', 'aria-hidden': 'true' }, mark),
        ` ${name} `,
        h('span', { class: 'n' }, thousands(counts[verdict])),
      );
    }),
  );
}

const COLUMNS = [
  { id: 'verdict', name: 'Verdict', title: 'by verdict, then by slope' },
  { id: 'name', name: 'Line', title: 'by place' },
  { id: null, name: 'Curve' },
  { id: 'worth', name: 'Worth', title: 'by largest effect' },
  { id: 'share', name: 'Share', title: 'by share of the samples' },
];

export function drawTable(box, model, view, rows, change, choose) {
  const from = view.page * PAGE;
  const header = COLUMNS.map(({ id, name, title }) => {
    const sorted = id === view.sort;
    const order = sorted ? (view.down ? 'descending' : 'ascending') : null;
    const flip = () => change({ sort: id, down: sorted ? !view.down : id !== 'name', page: 0 });
    const arrow = sorted ? (view.down ? ' ↓' : ' ↑') : '';
    const inside = id ? h('button', { type: 'button', id: `sort-${id}`, title: `Sort ${title}`, onclick: flip }, h('span', { class: 'label' }, name), h('span', { 'aria-hidden': 'true' }, arrow)) : name;
    return h('th', { scope: 'col', 'aria-sort': order, class: `col-${name.toLowerCase()}` }, inside);
  });
  const shown = rows.slice(from, from + PAGE);
  const body = shown.map((row, i) => tableRow(row, from + i, model, view, choose));
  fill(
    box,
    h('table', { class: 'lines' }, h('caption', { class: 'hidden' }, 'Profiled lines with verdict, effect and share of the samples'), h('thead', null, h('tr', null, header)), h('tbody', null, body)),
  );
}

function tableRow(row, at, model, view, choose) {
  const kind = kindOf(row);
  const verdict = VERDICTS[kind];
  const on = row.key === view.selected;
  const worth = kind === 'untried' ? [h('span', { class: 'muted' }, '–')] : [h('strong', null, percent(row.worth?.effect)), ' ', h('span', { class: 'muted range' }, interval(row.worth?.low, row.worth?.high))];
  return h(
    'tr',
    { class: `${kind}${on ? ' on' : ''}`, onclick: () => choose(row.key) },
    h('td', { class: `verdict ${kind}` }, h('span', { class: 'mark', 'aria-hidden': 'true' }, verdict.mark), ' ', h('span', { class: 'label' }, verdict.name)),
    h(
      'td',
      { class: 'line' },
      h('button', { type: 'button', class: 'pick', id: `row-${at}`, 'data-row': at, 'data-key': row.key, 'aria-pressed': String(on), title: clean(row.location) }, h('span', { class: 'name' }, clean(row.name))),
      row.func ? h('span', { class: 'func' }, clean(row.func)) : null,
    ),
    h('td', { class: 'col-curve' }, kind === 'untried' ? null : sparkline(row, model.scale)),
    h('td', { class: 'num' }, worth),
    h('td', { class: 'num col-share' }, h('span', { class: 'bar', 'aria-hidden': 'true' }, bar(row.share)), portion(row.share)),
  );
}

/** A bar in tenths: what a style sheet that allows no inline style can draw. */
function bar(share) {
  return h('span', { class: `fill w${Math.min(20, Math.max(share > 0 ? 1 : 0, Math.round(20 * share)))}` });
}

export function drawPages(nav, view, count, change) {
  const pages = Math.ceil(count / PAGE);
  nav.hidden = pages < 2;
  if (pages < 2) return fill(nav);
  const go = (page, id, text) => h('button', { type: 'button', id, class: 'plain', disabled: page < 0 || page >= pages || page === view.page, onclick: () => change({ page }) }, text);
  return fill(
    nav,
    go(0, 'page-first', 'First'),
    go(view.page - 1, 'page-back', 'Back'),
    h('span', null, `Page ${view.page + 1} of ${pages}`),
    go(view.page + 1, 'page-on', 'Next'),
    go(pages - 1, 'page-last', 'Last'),
  );
}

export function countText(rows, model, view) {
  const of = model.rows.filter((row) => row.point === view.point).length;
  return rows.length === of ? plural(of, 'line') : `${plural(rows.length, 'line')} of ${thousands(of)}`;
}
