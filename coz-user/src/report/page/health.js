// How far the figures can be trusted, and what is known of latency points.
import { fill, h } from './dom.js';
import { clean, plural, portion, thousands } from './words.js';

/** What makes the figures doubtful, before anything else; or that nothing does. */
export function drawHealth(box, data) {
  const { health } = data.report;
  const lists = [];
  if (data.empty) lists.push(h('div', { class: 'box warn' }, h('h2', null, 'No curve'), h('p', null, clean(data.empty))));
  // While it is being taken, a profile has no end.
  const warnings = health.warnings.filter((text) => !(data.live && data.open && text.startsWith('the profile has no end')));
  const list = (texts) => h('ul', null, texts.map((text) => h('li', null, ended(clean(text)))));
  if (warnings.length > 0) lists.push(h('div', { class: 'box warn' }, h('h2', null, h('span', { 'aria-hidden': 'true' }, '⚠ '), 'Beware: read this first'), list(warnings)));
  if (health.notices.length > 0) lists.push(h('div', { class: 'box' }, h('h2', null, 'Note'), list(health.notices)));
  if (lists.length === 0 && data.open) lists.push(h('p', { class: 'fine' }, 'Still being measured: figures change, and how far they can be trusted is known at the end.'));
  if (lists.length === 0) lists.push(h('p', { class: 'fine' }, h('span', { 'aria-hidden': 'true' }, '✓ '), healthy(health)));
  for (const text of data.latencies) lists.push(h('p', { class: 'latency' }, clean(text)));
  fill(box, lists);
}

function ended(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function healthy(health) {
  const unpaid = health.owed_ns > 0 ? `, ${portion(health.unpaid_ns / health.owed_ns)} of the delays left unpaid` : '';
  const cut = health.discarded_experiments > 0 ? `, ${plural(health.discarded_experiments, 'experiment')} left out` : '';
  return `Nothing speaks against these figures: ${plural(health.samples, 'sample')}, ${health.lost_samples === 0 ? 'none' : thousands(health.lost_samples)} lost${unpaid}${cut}.`;
}
