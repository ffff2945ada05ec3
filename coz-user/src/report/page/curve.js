// A line's curve: the fitted effect with its interval over the virtual speedup. SVG, drawn on demand.
import { arrow, beyond, linear, svg, ticks } from './dom.js';
import { clean, interval, percent, thousands } from './words.js';

const QUANTILES = { 0.5: 'median', 0.99: '99th percentile' };

/** The fitted curve starts where nothing is made faster and nothing is gained. */
function withOrigin(summary) {
  return [{ speedup: 0, effect: 0, low: 0, high: 0 }, ...summary];
}

const sure = (at) => at.low !== null && at.high !== null;

function path(points) {
  return points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
}

/** From and to of the effects that a chart must show. Wild intervals do not flatten the curve. */
function effectsRange(row, view) {
  let [low, high] = [-0.05, 0.05];
  const take = (value) => [low, high] = [Math.min(low, value), Math.max(high, value)];
  for (const at of row.summary) {
    take(at.effect);
    if (sure(at)) take(Math.max(at.low, -1)), take(Math.min(at.high, 1));
  }
  for (const quantile of row.quantiles) quantile.summary.forEach((at) => take(Math.max(Math.min(at.effect, 1), -1)));
  if (view.levels) row.curve.forEach((at) => take(Math.max(Math.min(at.effect, 1), -1)));
  if (view.dots && row.dots.length > 0) {
    const effects = row.dots.map((dot) => dot[1] / 1e4).sort((a, b) => a - b);
    take(Math.max(effects[Math.floor(0.02 * (effects.length - 1))], -1));
    take(Math.min(effects[Math.ceil(0.98 * (effects.length - 1))], 1));
  }
  const room = 0.06 * (high - low);
  return [low - room, high + room];
}

/** A summary for those who do not see the picture. */
function curveInWords(row) {
  const parts = row.summary.map((at) => `made ${Math.round(100 * at.speedup)} % faster, ${percent(at.effect)} (${interval(at.low, at.high)})`);
  return `Effect of ${clean(row.name)}: ${parts.join('; ') || 'no curve'}. The table below has the same figures.`;
}

/** Many points as one element: what makes a hundred thousand of them cheap. */
function dotsPath(dots, x, y, name) {
  // A little to the sides, by a rule, so that dots of one speedup do not hide each other.
  const aside = (i) => ((i * 7919) % 17 - 8) * 0.45;
  const d = dots.map((dot, i) => `M${(x(dot[0] / 1000) + aside(i)).toFixed(1)} ${y.clamped(dot[1] / 1e4).toFixed(1)}h0`).join('');
  return d ? svg('path', { d, class: name }) : null;
}

/** Arrow heads where intervals are cut off by the chart's edge. */
function cutEnds(levels, x, y, size) {
  const ends = levels.filter(sure).flatMap((at) => [[at, at.low], [at, at.high]]);
  const d = ends.map(([at, end]) => [at, end, beyond(end, y.ends)]).filter(([, , way]) => way !== 0).map(([at, end, way]) => arrow(x(at.speedup), y.clamped(end), way, size)).join('');
  return d ? svg('path', { d, class: 'cut' }, svg('title', null, 'the interval goes on beyond the edge')) : null;
}

/** The chart in the detail of a line. */
export function curveChart(row, view, width) {
  const height = Math.round(Math.min(Math.max(0.52 * width, 220), 340));
  const margin = { left: 58, right: 24, top: 14, bottom: 40 };
  const range = effectsRange(row, view);
  const x = linear([0, 1], [margin.left, width - margin.right]);
  const y = linear(range, [height - margin.bottom, margin.top]);
  const chart = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: `curve ${row.verdict}`, role: 'img', 'aria-label': curveInWords(row) });
  for (const value of ticks(...range, 6)) {
    chart.append(svg('line', { x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value), class: 'grid' }));
    chart.append(svg('text', { x: margin.left - 8, y: y(value) + 4, class: 'tick end' }, percent(value)));
  }
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    chart.append(svg('line', { x1: x(value), x2: x(value), y1: margin.top, y2: height - margin.bottom, class: 'grid faint' }));
    chart.append(svg('text', { x: x(value), y: height - margin.bottom + 17, class: 'tick middle' }, `${100 * value} %`));
  }
  if (range[0] < -0.1) {
    chart.append(svg('rect', { x: margin.left, width: width - margin.left - margin.right, y: y(0), height: height - margin.bottom - y(0), class: 'below' }));
    chart.append(svg('text', { x: margin.left + 6, y: height - margin.bottom - 6, class: 'tick' }, 'slower'));
  }
  chart.append(svg('line', { x1: margin.left, x2: width - margin.right, y1: y(0), y2: y(0), class: 'zero' }));
  chart.append(svg('text', { x: (margin.left + width - margin.right) / 2, y: height - 6, class: 'tick middle' }, 'if this line took so much less time'));
  const fit = withOrigin(row.summary);
  const known = fit.filter(sure);
  if (known.length > 1) {
    const upper = known.map((at) => [x(at.speedup), y.clamped(at.high)]);
    const lower = known.map((at) => [x(at.speedup), y.clamped(at.low)]).reverse();
    chart.append(svg('path', { d: `${path([...upper, ...lower])}Z`, class: 'band' }));
  }
  const cut = cutEnds([...row.summary, ...(view.levels ? row.curve : [])], x, y, 4.5);
  if (cut) chart.append(cut);
  if (view.dots) {
    chart.append(...[dotsPath(row.dots.filter((dot) => dot[2] === 0), x, y, 'dots out'), dotsPath(row.dots.filter((dot) => dot[2] === 1), x, y, 'dots')].filter(Boolean));
  }
  if (view.levels) row.curve.forEach((at) => chart.append(level(at, x, y)));
  if (row.summary.length > 0) {
    chart.append(svg('path', { d: path(fit.map((at) => [x(at.speedup), y.clamped(at.effect)])), class: 'fit' }));
    for (const at of row.summary) {
      const title = svg('title', null, `${Math.round(100 * at.speedup)} % less time: ${percent(at.effect)} (${interval(at.low, at.high)}), ${thousands(at.visits)} visits`);
      chart.append(svg('circle', { cx: x(at.speedup), cy: y.clamped(at.effect), r: 4, class: 'knot' }, title));
    }
  }
  row.quantiles.forEach((quantile, i) => {
    const points = withOrigin(quantile.summary).map((at) => [x(at.speedup), y.clamped(at.effect)]);
    chart.append(svg('path', { d: path(points), class: `fit quantile q${i}` }));
    const last = points[points.length - 1];
    chart.append(svg('text', { x: last[0] - 4, y: last[1] - 7, class: 'tick end' }, QUANTILES[quantile.q] ?? `${Math.round(100 * quantile.q)} %`));
  });
  return chart;
}

/** What was measured at one speedup, by itself. */
function level(at, x, y) {
  const group = svg('g', { class: 'level' });
  group.append(svg('title', null, `measured at ${Math.round(100 * at.speedup)} %: ${percent(at.effect)} (${interval(at.low, at.high)}), ${thousands(at.experiments)} experiments, ${thousands(at.visits)} visits`));
  const [cx, cy] = [x(at.speedup), y.clamped(at.effect)];
  if (sure(at)) group.append(svg('line', { x1: cx, x2: cx, y1: y.clamped(at.low), y2: y.clamped(at.high) }));
  group.append(svg('rect', { x: cx - 2.5, y: cy - 2.5, width: 5, height: 5 }));
  return group;
}

/** The curve in a row of the list: the same scale in each row, but for one that would not fit. */
export function sparkline(row, scale) {
  const [width, height] = [96, 30];
  const x = linear([0, 1], [1, width - 3]);
  const effects = row.summary.filter(sure).map((at) => at.effect);
  const y = linear([Math.min(scale[0], ...effects), Math.max(scale[1], ...effects)], [height - 3, 3]);
  const chart = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: `spark ${row.verdict}`, 'aria-hidden': 'true' });
  chart.append(svg('line', { x1: 0, x2: width, y1: y(0), y2: y(0), class: 'zero' }));
  if (row.summary.length === 0) return chart;
  const fit = withOrigin(row.summary);
  const known = fit.filter(sure);
  if (known.length > 1) {
    const upper = known.map((at) => [x(at.speedup), y.clamped(at.high)]);
    const lower = known.map((at) => [x(at.speedup), y.clamped(at.low)]).reverse();
    chart.append(svg('path', { d: `${path([...upper, ...lower])}Z`, class: 'band' }));
  }
  // At its end alone: there it is widest, and there is room for one.
  const cut = cutEnds(row.summary.slice(-1), x, y, 2.5);
  if (cut) chart.append(cut);
  chart.append(svg('path', { d: path(fit.map((at) => [x(at.speedup), y.clamped(at.effect)])), class: 'fit' }));
  return chart;
}
