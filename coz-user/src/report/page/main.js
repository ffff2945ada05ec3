// Joins the parts: what is shown follows from the data and the view, and is drawn anew when either changes.
import { drawAnswer } from './answer.js';
import { drawDetail } from './detail.js';
import { byId, fill, h } from './dom.js';
import { drawHealth } from './health.js';
import { countText, drawPages, drawTable, makeFilters, updateFilters } from './list.js';
import { PAGE, build, freshView, select } from './model.js';
import { drawOverview } from './overview.js';
import { dress, nextTheme } from './theme.js';
import { clean, saved, thousands } from './words.js';

let data = JSON.parse(byId('data').textContent);
let model = build(data);
let view = freshView(model);
let shown = select(model, view);
const filters = makeFilters(byId('filters'), change);

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
  drawHealth(byId('health'), data);
  drawAnswer(byId('answer'), model, view, isDoubtful(), choose);
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

/** Whether the report itself does not stand for the effects. */
function isDoubtful() {
  return data.report.health.warnings.some((text) => text.includes('not to be trusted'));
}

function drawHead() {
  const { report } = data;
  const program = report.program.length > 0 ? report.program : [data.file];
  const name = clean(program[0]).split('/').pop() || 'profile';
  document.title = `${name} – coz-bpf`;
  fill(byId('program'), h('span', { class: 'exe', title: clean(program.join(' ')) }, name), h('span', { class: 'args' }, clean(program.slice(1).join(' ')).slice(0, 200)));
  byId('facts').textContent = data.facts.map(clean).join(' · ');
  byId('how').textContent = `A line’s effect is the share of ${saved(pointOf())} that would be saved if the line took less time; it was measured by delaying everything else. A curve that rises is worth work, one that lies on zero is not however hot the line is, and one that falls means that the line gets in others’ way. The band, and what stands in small print, is the 95 % interval: where it is wide or includes zero, run longer before you decide.`;
  byId('foot').textContent = `coz-bpf ${data.version} · ${clean(data.file)}${data.kernel ? ` · kernel ${clean(data.kernel)}` : ''}${data.rate ? ` · ${thousands(data.rate)} samples a CPU-second` : ''} · keys: / find, ↑ ↓ lines, d experiments, t colours`;
}

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

byId('theme').addEventListener('click', nextTheme);

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
  events.addEventListener('error', () => {
    // A server that goes when the run has ended has told everything.
    if (!data.open) events.close();
    status(!data.open);
  });
  events.addEventListener('open', () => status(true));
}
