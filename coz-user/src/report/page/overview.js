// Where the time goes against what it is worth: one mark a line.
import { arrow, beyond, fill, h, linear, svg, ticks } from './dom.js';
import { clean, percent, portion } from './words.js';

/** So many marks have names. */
const NAMED = 6;

const SHAPES = {
  optimize: (x, y, r) => `M${x} ${y - r}L${x + r} ${y + 0.8 * r}L${x - r} ${y + 0.8 * r}Z`,
  contention: (x, y, r) => `M${x} ${y + r}L${x + r} ${y - 0.8 * r}L${x - r} ${y - 0.8 * r}Z`,
  flat: (x, y, r) => `M${x - 0.8 * r} ${y}a${0.8 * r} ${0.8 * r} 0 1 0 ${1.6 * r} 0a${0.8 * r} ${0.8 * r} 0 1 0 ${-1.6 * r} 0Z`,
};
SHAPES.undecided = SHAPES.flat;

/** Draws the rows that have an effect; `choose` is told which one was clicked. */
export function drawOverview(box, rows, selected, choose) {
  const shown = rows.filter((row) => row.worth && !row.hidden);
  if (shown.length === 0) {
    fill(box, h('p', { class: 'muted' }, 'No line of this selection has a curve.'));
    return;
  }
  const width = Math.max(box.clientWidth, 280);
  const height = Math.round(Math.min(Math.max(0.42 * width, 220), 330));
  const margin = { left: 58, right: 22, top: 14, bottom: 40 };
  const most = Math.max(0.05, ...shown.map((row) => row.share)) * 1.08;
  // What is not decided has intervals that would flatten all others: they are cut off.
  const decided = shown.filter((row) => row.verdict !== 'undecided');
  const effects = (decided.length > 0 ? decided : shown).flatMap(({ worth }) => [worth.effect, worth.low ?? 0, worth.high ?? 0]).map((effect) => Math.max(-1, Math.min(effect, 1)));
  const low = Math.max(-1, Math.min(-0.04, ...effects) * 1.12);
  const high = Math.min(1.05, Math.max(0.08, ...effects) * 1.12);
  const x = linear([0, most], [margin.left, width - margin.right]);
  const y = linear([low, high], [height - margin.bottom, margin.top]);
  const best = shown.filter((row) => row.verdict === 'optimize').length;
  const label = `${shown.length} lines by share of the samples and effect on the program; ${best} are worth optimising. The list below has the same figures.`;
  const chart = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'scatter', role: 'img', 'aria-label': label });
  for (const value of ticks(low, high, 5)) {
    chart.append(svg('line', { x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value), class: 'grid' }));
    chart.append(svg('text', { x: margin.left - 8, y: y(value) + 4, class: 'tick end' }, percent(value)));
  }
  for (const value of ticks(0, most, Math.round(width / 110))) {
    chart.append(svg('text', { x: x(value), y: height - margin.bottom + 17, class: 'tick middle' }, `${Math.round(1000 * value) / 10} %`));
  }
  chart.append(svg('line', { x1: margin.left, x2: width - margin.right, y1: y(0), y2: y(0), class: 'zero' }));
  // What someone would expect who knows nothing but the samples.
  const end = Math.min(most, high);
  chart.append(svg('line', { x1: x(0), y1: y(0), x2: x(end), y2: y(end), class: 'expected' }));
  const names = [];
  const cut = drawMarks(chart, shown, x, y, selected);
  const ranked = [...shown].sort((a, b) => Math.max(Math.abs(b.worth.effect), b.share) - Math.max(Math.abs(a.worth.effect), a.share));
  const named = ranked.filter((row) => row.verdict !== 'undecided' || row.share > 0.05).slice(0, NAMED);
  const chosen = shown.find((row) => row.key === selected);
  if (chosen && !named.includes(chosen)) named.unshift(chosen);
  for (const row of named) nameMark(chart, row, [x(row.share), y.clamped(row.worth.effect)], [width, y(0)], names);
  const [ex, ey] = [x(end) - 4, y(end) + 30];
  if (!names.some(([l, r, t, b]) => l < ex && r > ex - 90 && t < ey + 3 && b > ey - 12)) {
    chart.append(svg('text', { x: ex, y: ey, class: 'tick end halo' }, 'worth = share'));
  }
  chart.append(svg('text', { x: (margin.left + width - margin.right) / 2, y: height - 6, class: 'tick middle' }, 'share of the samples'));
  chart.addEventListener('click', (event) => {
    const place = chart.getBoundingClientRect();
    const [px, py] = [event.clientX - place.left, event.clientY - place.top];
    const distance = (row) => Math.hypot(x(row.share) - px, y.clamped(row.worth.effect) - py);
    const nearest = shown.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    if (distance(nearest) < 30) choose(nearest.key);
  });
  fill(
    box,
    h('p', { class: 'axis' }, 'Largest effect, up: the program gets faster'),
    chart,
    h('p', { class: 'note muted' }, 'To the right: what an ordinary profiler would point at. High up: what is worth your time. Hot and near zero: nobody waits for it.', cut ? ' An arrow head: the interval goes on beyond the edge.' : ''),
  );
}

/** One element for all marks of a verdict, however many there are; the selected one has its interval. Whether one is cut off. */
function drawMarks(chart, rows, x, y, selected) {
  for (const verdict of ['undecided', 'flat', 'contention', 'optimize']) {
    const of = rows.filter((row) => row.verdict === verdict);
    const r = of.length > 300 ? 3 : 6;
    const number = (value) => Number(value.toFixed(1));
    const d = of.map((row) => SHAPES[verdict](number(x(row.share)), number(y.clamped(row.worth.effect)), r)).join('');
    if (d) chart.append(svg('path', { d, class: `mark ${verdict}` }));
  }
  const chosen = rows.find((row) => row.key === selected);
  const whiskers = rows.length <= 40 ? rows : [];
  let cut = false;
  for (const row of chosen && !whiskers.includes(chosen) ? [...whiskers, chosen] : whiskers) {
    const { low, high } = row.worth;
    if (low === null || high === null) continue;
    const at = x(row.share);
    chart.append(svg('line', { x1: at, x2: at, y1: y.clamped(low), y2: y.clamped(high), class: `whisker ${row.verdict}` }));
    const heads = [low, high].map((end) => [end, beyond(end, y.ends)]).filter(([, way]) => way !== 0);
    if (heads.length === 0) continue;
    cut = true;
    chart.append(svg('path', { d: heads.map(([end, way]) => arrow(at, y.clamped(end), way)).join(''), class: `whisker cut ${row.verdict}` }));
  }
  if (chosen) chart.append(svg('circle', { cx: x(chosen.share), cy: y.clamped(chosen.worth.effect), r: 11, class: 'chosen' }));
  return cut;
}

/** Writes a mark's name beside it, if there is room. */
function nameMark(chart, row, [px, py], [width, zero], taken) {
  const text = clean(row.func ? `${shortFunction(row.func)} · ${row.name.slice(row.name.lastIndexOf('/') + 1)}` : row.name).slice(0, 46);
  const long = 6.6 * text.length;
  // Not on the zero line, which would cross it out.
  const beside = Math.abs(py - zero) < 9 ? zero - py - 7 : 4;
  for (const [dx, dy] of [[15, beside], [-15 - long, beside], [-long / 2, -12], [-long / 2, 22]]) {
    const box = [px + dx, px + dx + long, py + dy - 12, py + dy + 3];
    if (box[0] < 60 || box[1] > width - 4 || box[2] < 0) continue;
    if (taken.some(([l, r, t, b]) => box[0] < r && box[1] > l && box[2] < b && box[3] > t)) continue;
    taken.push(box);
    const title = svg('title', null, clean(`${row.location}: ${portion(row.share)} of the samples, ${percent(row.worth.effect)}`));
    chart.append(svg('text', { x: px + dx, y: py + dy, class: 'name' }, title, text));
    return;
  }
}

/** The last part of a function's name, without parameters. */
export function shortFunction(name) {
  const bare = name.replace(/\(.*$/s, '').replace(/::h[0-9a-f]{16}$/, '');
  const plain = bare.replace(/<[^<>]*>/g, '').replace(/<[^<>]*>/g, '');
  return plain.split('::').pop() || name;
}
