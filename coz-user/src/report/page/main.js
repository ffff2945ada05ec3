// Joins the parts: what is shown follows from the data and the view, and is drawn anew when either changes.
import { drawDetail } from './detail.js';
import { byId, fill, h } from './dom.js';
import { countText, drawPages, drawTable, makeFilters, updateFilters } from './list.js';
import { PAGE, answers, build, freshView, select } from './model.js';
import { drawOverview, shortFunction } from './overview.js';
import { VERDICTS, clean, interval, percent, plural, portion, saved, seconds, thousands, time } from './words.js';

let data = JSON.parse(byId('data').textContent);
let model = build(data);
let view = freshView(model);
let shown = select(model, view);
const filters = makeFilters(byId('filters'), change);

function remembered(name, value) {
  // From disk some browsers have no storage.
  try {
    if (value === undefined) return window.localStorage.getItem(name);
    window.localStorage.setItem(name, value);
  } catch {
    return null;
  }
  return value;
}

function pointOf() {
  return model.points.find((point) => point.name === view.point);
}

/** A change of the view: what was asked for, and the drawing. */
function change(what) {
  view = { ...view, ...what };
  draw();
}

/** Selects a row, by its key, and shows it. */
function choose(key) {
  change({ selected: key });
  byId('say').textContent = `Selected ${clean(model.byKey.get(key)?.name ?? '')}`;
  if (window.matchMedia('(max-width: 1099px)').matches) byId('detail').scrollIntoView({ block: 'start' });
}

function draw() {
  const focused = document.activeElement;
  const [id, focusedKey] = [focused?.id, focused?.dataset?.key];
  shown = select(model, view);
  const pages = Math.max(1, Math.ceil(shown.rows.length / PAGE));
  view.page = Math.min(view.page, pages - 1);
  if (!model.byKey.has(view.selected)) view.selected = shown.rows[0]?.key ?? null;
  drawHead();
  drawHealth();
  drawAnswer();
  updateFilters(filters, model, view, shown.counts, change);
  byId('count').textContent = countText(shown.rows, model, view);
  drawTable(byId('table'), model, view, shown.rows, change, choose);
  drawPages(byId('pages'), view, shown.rows.length, change);
  drawOverview(byId('overview'), shown.rows, view.selected, choose);
  const code = document.querySelector('.code');
  const [place, key] = [code?.scrollTop, code?.dataset.key];
  drawDetail(byId('detail'), model, model.byKey.get(view.selected) ?? null, view, choose, change);
  const after = document.querySelector('.code');
  if (after) {
    after.dataset.key = `${view.selected} ${view.whole}`;
    if (key === after.dataset.key) after.scrollTop = place;
  }
  // What was drawn anew has lost its focus.
  const again = focusedKey ? [...document.querySelectorAll('.pick')].find((row) => row.dataset.key === focusedKey) : id && byId(id);
  if (again && document.activeElement !== again) again.focus({ preventScroll: true });
}

function drawHead() {
  const { report } = data;
  const program = report.program.length > 0 ? report.program : [data.file];
  const name = clean(program[0]).split('/').pop() || 'profile';
  document.title = `${name} – coz-bpf`;
  fill(byId('program'), h('span', { class: 'exe', title: clean(program.join(' ')) }, name), h('span', { class: 'args' }, clean(program.slice(1).join(' ')).slice(0, 200)));
  const parts = [plural(report.experiments, 'experiment'), seconds(data.seconds)];
  for (const point of report.points.filter(({ name: point }) => point !== 'end-to-end')) parts.push(`${plural(point.visits, 'visit')} of ${clean(point.name)}`);
  byId('facts').textContent = parts.join(' · ');
  byId('how').textContent = `A line’s effect is the share of ${saved(pointOf())} that would be saved if the line took less time; it was measured by delaying everything else. A curve that rises is worth work, one that lies on zero is not however hot the line is, and one that falls means that the line gets in others’ way. The band, and what stands in small print, is the 95 % interval: where it is wide or includes zero, run longer before you decide.`;
  byId('foot').textContent = `coz-bpf ${data.version} · ${clean(data.file)}${data.kernel ? ` · kernel ${clean(data.kernel)}` : ''}${data.rate ? ` · ${thousands(data.rate)} samples a CPU-second` : ''} · keys: / find, ↑ ↓ lines, d experiments, t light or dark`;
}

function drawHealth() {
  const { health, points } = data.report;
  const lists = [];
  if (data.empty) lists.push(h('div', { class: 'box warn' }, h('h2', null, 'No curve'), h('p', null, clean(data.empty))));
  // While it is being taken, a profile has no end.
  const warnings = health.warnings.filter((text) => !(data.live && data.open && text.startsWith('the profile has no end')));
  const list = (texts) => h('ul', null, texts.map((text) => h('li', null, ended(clean(text)))));
  if (warnings.length > 0) lists.push(h('div', { class: 'box warn' }, h('h2', null, h('span', { 'aria-hidden': 'true' }, '⚠ '), 'Beware: read this first'), list(warnings)));
  if (health.notices.length > 0) lists.push(h('div', { class: 'box' }, h('h2', null, 'Note'), list(health.notices)));
  if (lists.length === 0) lists.push(h('p', { class: 'fine' }, h('span', { 'aria-hidden': 'true' }, '✓ '), healthy(health)));
  for (const point of points.filter((one) => one.latency)) lists.push(latencyFacts(point));
  fill(byId('health'), lists);
}

function ended(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function healthy(health) {
  const unpaid = health.owed_ns > 0 ? `, ${portion(health.unpaid_ns / health.owed_ns)} of the delays left unpaid` : '';
  const cut = health.discarded_experiments > 0 ? `, ${plural(health.discarded_experiments, 'experiment')} left out` : '';
  return `Nothing speaks against these figures: ${plural(health.samples, 'sample')}, ${health.lost_samples === 0 ? 'none' : thousands(health.lost_samples)} lost${unpaid}${cut}.`;
}

function latencyFacts(point) {
  const { latency } = point;
  const parts = [`${thousands(latency.per_second)} a second`];
  if (latency.in_system !== null) parts.push(`${latency.in_system.toFixed(1)} under way on average`);
  const mean = latency.mean_ns ?? latency.little_ns;
  if (mean !== null) parts.push(`mean ${time(mean)}`);
  if (latency.p50_ns !== null) parts.push(`median ${time(latency.p50_ns)}`);
  if (latency.p99_ns !== null) parts.push(`99th percentile ${time(latency.p99_ns)}`);
  const growing = latency.growing === null ? '' : ` It is not steady${latency.growing_with_delays_only ? ' with delays' : ''}: ${portion(latency.growing)} of what began did not end.`;
  return h('p', { class: 'latency' }, h('strong', null, `Latency of ${clean(point.name)}: `), `${parts.join(', ')}.${growing}`);
}

function drawAnswer() {
  const found = answers(model, view);
  const losses = found.contention.slice(0, 1);
  const cards = [...found.optimize.slice(0, 3 - losses.length), ...losses].map(answerCard);
  if (cards.length === 0 && found.tried > 0) cards.push(nothingCard(found.undecided.length));
  // What the report does not stand for, it does not advise against either.
  if (found.decoy && (found.decoy.verdict === 'flat' || !doubtful())) cards.push(decoyCard(found.decoy));
  fill(byId('answer'), cards.length > 0 ? [h('h2', { class: 'hidden' }, 'What to work on'), h('div', { class: 'cards' }, cards)] : []);
}

/** Whether the report itself does not stand for the effects. */
function doubtful() {
  return data.report.health.warnings.some((text) => text.includes('not to be trusted'));
}

function cardTitle(row) {
  return row.func ? clean(shortFunction(row.func)) : clean(row.name);
}

function answerCard(row, i) {
  const loss = row.verdict === 'contention';
  const half = row.summary.find((at) => at.speedup === 0.5);
  const small = half && row.worth.speedup !== 0.5 ? `${percent(half.effect)} if it took half the time. ` : '';
  return h(
    'button',
    { type: 'button', class: `card answer ${row.verdict}`, id: `answer-${i}`, onclick: () => choose(row.key) },
    h('span', { class: 'kind' }, h('span', { 'aria-hidden': 'true' }, VERDICTS[row.verdict].mark), loss ? ' Contention' : i > 0 ? ' Also worth it' : doubtful() ? ' First, if the figures hold' : ' Work on this first'),
    h('span', { class: 'big' }, percent(row.worth.effect), ' ', h('span', { class: 'range' }, interval(row.worth.low, row.worth.high))),
    h('span', { class: 'who' }, cardTitle(row)),
    h('span', { class: 'where' }, clean(row.name)),
    h('span', { class: 'small' }, loss ? `Made faster, it slows the program down. ${portion(row.share)} of the samples.` : `${small}${portion(row.share)} of the samples.`),
  );
}

/** No line is called worth optimising. */
function nothingCard(undecided) {
  const [kind, mark, big, small] = undecided > 0
    ? ['undecided', VERDICTS.undecided.mark, 'Not decided yet', `${plural(undecided, 'line')} ${undecided === 1 ? 'needs' : 'need'} more experiments: run longer.`]
    : ['flat', VERDICTS.flat.mark, 'Nothing by itself', 'No line gains anything when it alone is made faster.'];
  return h('div', { class: `card answer ${kind}` }, h('span', { class: 'kind' }, h('span', { 'aria-hidden': 'true' }, mark), ' What to work on'), h('span', { class: 'big' }, big), h('span', { class: 'small' }, small));
}

function decoyCard(row) {
  const flat = row.verdict === 'flat';
  const most = Math.max(0, ...row.summary.map((at) => at.high));
  return h(
    'button',
    { type: 'button', class: 'card answer flat', id: 'answer-decoy', onclick: () => choose(row.key) },
    h('span', { class: 'kind' }, h('span', { 'aria-hidden': 'true' }, VERDICTS[row.verdict].mark), flat ? ' Hot, but leave it alone' : ' Hot, but hardly worth it'),
    h('span', { class: 'big' }, percent(row.worth.effect), ' ', h('span', { class: 'range' }, interval(row.worth.low, row.worth.high))),
    h('span', { class: 'who' }, cardTitle(row)),
    h('span', { class: 'where' }, clean(row.name)),
    h('span', { class: 'small' }, `${portion(row.share)} of the samples, and ${flat ? 'nobody waits for it' : `worth ${most < 0.005 ? 'nothing' : `at most ${percent(most)}`}, even where its interval ends`}.`),
  );
}

// Light and dark: the system's choice until somebody makes one.
const THEMES = { auto: 'system', light: 'light', dark: 'dark' };
let theme = remembered('coz-bpf-theme') ?? 'auto';

function dress() {
  if (!(theme in THEMES)) theme = 'auto';
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId('theme').textContent = `Colours: ${THEMES[theme]}`;
}

function nextTheme() {
  const dark = theme === 'auto' ? window.matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark';
  const order = dark ? ['auto', 'light', 'dark'] : ['auto', 'dark', 'light'];
  theme = theme === 'auto' ? order[1] : theme === order[2] ? 'auto' : order[2];
  theme = remembered('coz-bpf-theme', theme) ?? theme;
  dress();
}

byId('theme').addEventListener('click', nextTheme);

/** To the next or previous row, across pages. */
function step(by) {
  const at = shown.rows.findIndex((row) => row.key === view.selected);
  const next = Math.min(Math.max(at + by, 0), shown.rows.length - 1);
  if (!shown.rows[next]) return;
  change({ selected: shown.rows[next].key, page: Math.floor(next / PAGE) });
  const button = byId(`row-${next}`);
  button?.focus({ preventScroll: true });
  button?.scrollIntoView({ block: 'nearest' });
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest('input, select, textarea');
  if (typing) {
    if (event.key === 'Escape' && event.target.id === 'text') {
      change({ text: '', page: 0 });
      byId('row-0')?.focus();
    }
    return;
  }
  const inList = event.target.closest('#table') || event.target === document.body || event.target.id === 'lines';
  const act = {
    '/': () => byId('text').focus(),
    ArrowDown: inList && (() => step(1)),
    ArrowUp: inList && (() => step(-1)),
    d: () => change({ dots: !view.dots }),
    t: nextTheme,
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// Redrawn when the width changes: the charts are as wide as their place.
let width = 0;
new ResizeObserver(() => {
  const now = document.documentElement.clientWidth;
  if (Math.abs(now - width) < 2) return;
  width = now;
  draw();
}).observe(document.documentElement);

dress();

// Live: told that the file has grown, the page asks for the data and keeps its view.
let latest = 0;

async function refresh() {
  const number = (latest += 1);
  const answer = await fetch('data.json', { cache: 'no-store' });
  if (!answer.ok || number !== latest) return;
  data = await answer.json();
  model = build(data);
  if (!model.points.some((point) => point.name === view.point)) view = { ...freshView(model), text: view.text, dots: view.dots };
  draw();
  status(true);
}

function status(connected) {
  const box = byId('live');
  box.hidden = false;
  box.className = `live ${connected ? (data.open ? 'on' : 'done') : 'off'}`;
  box.textContent = connected ? (data.open ? 'Live' : 'Run ended') : 'No connection: showing the last state';
}

if (data.live) {
  status(true);
  const events = new EventSource('events');
  events.addEventListener('grown', () => refresh().catch(() => status(false)));
  events.addEventListener('error', () => status(false));
  events.addEventListener('open', () => status(true));
}
