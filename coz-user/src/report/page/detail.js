// The selected line: verdict, curve, table, source.
import { curveChart } from './curve.js';
import { byId, fill, h } from './dom.js';
import { kindOf } from './model.js';
import { drawSource } from './source.js';
import { VERDICTS, capital, clean, interval, percent, plural, portion, saved, sentence, thousands, time } from './words.js';

/** Draws everything about a row; the box is emptied before. */
export function drawDetail(box, model, row, view, choose, change) {
  if (!row) {
    fill(box, h('h2', null, 'No line selected'), h('p', { class: 'muted' }, 'Choose one in the list.'));
    return;
  }
  const kind = kindOf(row);
  const point = model.points.find(({ name }) => name === row.point);
  const one = model.runs === null ? 'experiment' : 'run';
  const chart = h('div', { class: 'chart' });
  const source = h('div', { class: 'source-box' });
  const toggle = (name, text, n) => h('button', { type: 'button', id: `toggle-${name}`, class: 'plain', 'aria-pressed': String(view[name]), disabled: n === 0, onclick: () => change({ [name]: !view[name] }) }, text);
  fill(
    box,
    h('h2', { class: 'place' }, h('span', { class: `mark ${kind}`, 'aria-hidden': 'true' }, VERDICTS[kind].mark), ' ', clean(row.name)),
    row.func ? h('p', { class: 'func' }, clean(row.func)) : null,
    h('p', { class: `verdict-text ${kind}` }, sentence(row)),
    h('p', { class: 'muted facts' }, facts(row, point, one)),
    row.summary.length > 0
      ? [
          h('p', { class: 'axis' }, `Share of ${saved(point)} that would be saved${model.runs === null ? '' : ` (end to end, ${plural(model.runs, 'run')})`}`),
          chart,
          h('div', { class: 'toggles' }, toggle('dots', `${capital(one)}s (${thousands(row.dots.length)})`, row.dots.length), toggle('levels', `Each speedup (${row.curve.length})`, row.curve.length)),
          tables(row, view, one),
        ]
      : null,
    h('h3', null, 'Source'),
    source,
  );
  if (row.summary.length > 0) fill(chart, curveChart(row, view, Math.max(chart.clientWidth, 280)));
  drawSource(source, model, row, view, choose, change);
}

function decimal(value) {
  const text = value.toFixed(2);
  return text === '-0.00' ? '0.00' : text.replace('-', '−');
}

function facts(row, point, one) {
  const parts = [`${portion(row.share)} of the samples`];
  if (row.experiments > 0) parts.push(plural(row.experiments, one));
  if (row.outliers > 0) parts.push(`${row.outliers} left out as mishaps`);
  if (row.slope !== null) parts.push(`slope ${decimal(row.slope)}${row.slopeLow === null ? '' : ` (${decimal(row.slopeLow)} to ${decimal(row.slopeHigh)})`}`);
  if (row.chance !== null) parts.push(row.chance < 0.001 ? 'by chance alone: below 0.1\u00a0%' : `by chance alone: ${portion(row.chance)}`);
  if (row.phase) parts.push(row.phase);
  if (point && row.point !== 'end-to-end') parts.push(`point ${clean(row.point)}`);
  return `${parts.join(' · ')}.`;
}

/** The curve's figures, for whoever does not see it or wants them exactly. */
function tables(row, view, one) {
  const columns = ['Line faster by', 'Effect', '95 % interval', `${capital(one)}s`, 'Visits'];
  const body = (levels) => levels.map((at) => h('tr', null, h('th', { scope: 'row' }, `${Math.round(1000 * at.speedup) / 10} %`), h('td', null, percent(at.effect)), h('td', null, interval(at.low, at.high)), h('td', null, thousands(at.experiments)), h('td', null, thousands(at.visits))));
  const table = (caption, levels) => h('table', { class: 'figures' }, h('caption', null, caption), h('thead', null, h('tr', null, columns.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', null, body(levels)));
  const open = byId('figures')?.open ?? false;
  return h(
    'details',
    { id: 'figures', open },
    h('summary', null, 'The figures as a table'),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Figures of the curve' },
      table('The fitted curve', row.summary),
      row.quantiles.map((quantile) => table(`${quantile.q === 0.5 ? 'Median' : `${Math.round(100 * quantile.q)}th percentile`} of the latency, ${time(quantile.baseline_ns)} without delays`, quantile.summary)),
      view.levels ? table('Each speedup by itself', row.curve) : null),
  );
}
