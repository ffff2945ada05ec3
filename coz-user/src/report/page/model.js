// From the data in the page to rows that can be sorted and filtered. Pure.

/** Rows on one page of the list. */
export const PAGE = 50;

const RANK = ['optimize', 'contention', 'undecided', 'flat', 'untried'];

/** Of each path its end, as much as tells it from the others. */
export function shortNames(files) {
  const names = new Map();
  let open = [...new Set(files)];
  for (let n = 1; open.length > 0; n += 1) {
    const ends = new Map();
    for (const file of open) {
      const parts = file.split('/');
      const end = parts.slice(-n).join('/');
      ends.set(end, [...(ends.get(end) ?? []), file]);
      names.set(file, n < parts.length ? end : file);
    }
    open = [...ends.values()].filter((same) => same.length > 1).flat();
    if (n > 64) break;
  }
  return names;
}

/** The fitted effect that matters most: the largest gain, or the largest loss of a line that only loses. */
function worthOf(line) {
  const extreme = (better) => line.summary.reduce((best, at) => (best === null || better(at.effect, best.effect) ? at : best), null);
  if (line.verdict === 'contention') return extreme((a, b) => a < b);
  if (line.verdict === 'undecided' || line.verdict === 'flat') return extreme((a, b) => Math.abs(a) > Math.abs(b));
  return extreme((a, b) => a > b);
}

const key = (location, point) => `${point}\u0000${location}`;

/** A function's name, where it is not the place itself. */
const own = (name, location) => (name === location ? null : name);

/** Everything that the page shows, by what it is needed for. */
export function build(data) {
  const { report } = data;
  const rows = report.lines.map((line, i) => {
    const more = data.lines[i];
    return {
      key: key(line.location, line.point),
      location: line.location,
      place: more.place,
      func: own(line.function, line.location),
      point: line.point,
      samples: line.samples,
      share: line.share,
      verdict: line.verdict,
      hidden: data.shows_hidden && line.curve.length > 0 ? null : line.hidden,
      open: more.undecided,
      curve: line.curve,
      summary: line.summary,
      slope: line.slope,
      slopeLow: line.slope_low,
      slopeHigh: line.slope_high,
      worth: worthOf(line),
      experiments: line.experiments,
      outliers: line.outliers,
      chance: line.chance,
      phase: more.phase ? `${more.phase}: corrected by ×${line.phase_factor.toFixed(2)}` : null,
      quantiles: line.quantiles ?? [],
      dots: more.dots,
      order: i,
    };
  });
  const points = report.points;
  const names = points.length > 0 ? points.map((point) => point.name) : [''];
  for (const point of names) {
    const tried = new Set(rows.filter((row) => row.point === point).map((row) => row.location));
    report.samples.forEach((sample, i) => {
      if (tried.has(sample.location)) return;
      rows.push({
        key: key(sample.location, point),
        location: sample.location,
        place: data.samples[i],
        func: own(sample.function, sample.location),
        point,
        samples: sample.samples,
        share: sample.share,
        verdict: 'untried',
        hidden: null,
        curve: [],
        summary: [],
        slope: null,
        worth: null,
        experiments: 0,
        outliers: 0,
        chance: null,
        phase: null,
        quantiles: [],
        dots: [],
        order: report.lines.length + i,
      });
    });
  }
  const files = [...new Set(rows.filter((row) => row.place).map((row) => row.place[0]))].sort();
  const short = shortNames(files);
  for (const row of rows) {
    row.file = row.place ? row.place[0] : '';
    row.name = row.place ? `${short.get(row.file)}:${row.place[1]}` : row.location;
    row.search = `${row.location}\n${row.func ?? ''}`.toLowerCase();
  }
  return {
    rows,
    byKey: new Map(rows.map((row) => [row.key, row])),
    points,
    runs: data.runs ?? null,
    files: files.map((file) => ({ file, name: short.get(file) })),
    sources: new Map(data.sources.map((source) => [source.file, source.parts])),
    scale: scaleOf(rows),
  };
}

/** One scale for all small curves, so that they can be compared. */
function scaleOf(rows) {
  let [low, high] = [-0.05, 0.05];
  for (const row of rows) {
    if (row.hidden || row.verdict === 'undecided') continue;
    for (const at of row.summary) [low, high] = [Math.min(low, at.low ?? at.effect), Math.max(high, at.high ?? at.effect)];
  }
  return [Math.max(low, -1), Math.min(high, 1)];
}

/** What the list shows before anybody has chosen anything. */
export function freshView(model) {
  const counts = (point) => model.rows.filter((row) => row.point === point.name && row.verdict !== 'untried' && !row.hidden).length;
  const first = model.points.find((point) => counts(point) > 0) ?? model.points[0];
  return {
    point: first ? first.name : '',
    text: '',
    file: '',
    verdicts: [],
    sort: 'verdict',
    down: true,
    page: 0,
    selected: null,
    dots: false,
    levels: false,
    whole: false,
  };
}

const SORTS = {
  verdict: (row) => 1e6 * (RANK.length - RANK.indexOf(row.verdict)) + (row.verdict === 'contention' ? -1 : 1) * (row.slope ?? 0) + 1e-6 * row.share,
  worth: (row) => (row.worth ? row.worth.effect : -Infinity),
  slope: (row) => row.slope ?? -Infinity,
  share: (row) => row.share,
  name: (row) => row.name,
};

/** Whether lines with samples alone are all that there is. */
function onlySamples(model, view) {
  return !model.rows.some((row) => row.point === view.point && row.verdict !== 'untried' && !row.hidden);
}

/** The rows to show, in order; and how many there are of each verdict before the verdicts are filtered. */
export function select(model, view) {
  const words = view.text.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = Object.fromEntries(RANK.map((verdict) => [verdict, 0]));
  const bare = onlySamples(model, view);
  const rows = model.rows.filter((row) => {
    if (row.point !== view.point || (view.file && row.file !== view.file)) return false;
    if (!words.every((word) => row.search.includes(word))) return false;
    const kind = kindOf(row);
    counts[kind] += 1;
    return view.verdicts.length > 0 ? view.verdicts.includes(kind) : bare || kind !== 'untried';
  });
  const by = SORTS[view.sort] ?? SORTS.verdict;
  const sign = view.down ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x === y) return a.order - b.order;
    return x < y ? -sign : sign;
  };
  return { rows: rows.sort(compare), counts };
}

/** Lines with too few data go with those that were not tried. */
export function kindOf(row) {
  return row.hidden ? 'untried' : row.verdict;
}

/** From this share of the samples on, people look at a line. */
const HOT = 0.1;

/** Shown to be flat, or at most this much even where its intervals end. */
const LITTLE = 0.1;

function isWorthless(row) {
  if (row.verdict === 'flat') return true;
  return row.verdict === 'undecided' && row.summary.length > 0 && row.summary.every((at) => at.high !== null && at.high <= LITTLE);
}

/** The lines that answer the question: what to work on. */
export function answers(model, view) {
  const of = model.rows.filter((row) => row.point === view.point && !row.hidden);
  const best = (verdict, by) => of.filter((row) => row.verdict === verdict).sort((a, b) => by(b) - by(a));
  return {
    optimize: best('optimize', (row) => row.worth.effect),
    contention: best('contention', (row) => -row.worth.effect),
    // What an ordinary profiler would send people to, and is worth nothing, or little at the very most.
    decoy: of.filter((row) => row.share >= HOT && isWorthless(row)).sort((a, b) => b.share - a.share)[0] ?? null,
    undecided: best('undecided', (row) => row.share),
    tried: of.filter((row) => row.verdict !== 'untried').length,
  };
}
