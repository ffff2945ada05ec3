// What to work on, in a few cards.
import { fill, h } from './dom.js';
import { answers } from './model.js';
import { shortFunction } from './overview.js';
import { VERDICTS, clean, interval, percent, plural, portion } from './words.js';

/** Cards for the lines that matter most; `doubtful`: the report itself does not stand for its effects. */
export function drawAnswer(box, model, view, doubtful, choose) {
  const found = answers(model, view);
  const losses = found.contention.slice(0, 1);
  const cards = [...found.optimize.slice(0, 3 - losses.length), ...losses].map((row, i) => answerCard(row, i, doubtful, choose));
  if (cards.length === 0 && found.tried > 0) cards.push(nothingCard(found.undecided.length));
  // What the report does not stand for, it does not advise against either.
  if (found.decoy && (found.decoy.verdict === 'flat' || !doubtful)) cards.push(decoyCard(found.decoy, choose));
  fill(box, cards.length > 0 ? [h('h2', { class: 'hidden' }, 'What to work on'), h('div', { class: 'cards' }, cards)] : []);
}

function cardTitle(row) {
  return row.func ? clean(shortFunction(row.func)) : clean(row.name);
}

function answerCard(row, i, doubtful, choose) {
  const loss = row.verdict === 'contention';
  const half = row.summary.find((at) => at.speedup === 0.5);
  const small = half && row.worth.speedup !== 0.5 ? `${percent(half.effect)} if it took half the time. ` : '';
  return h(
    'button',
    { type: 'button', class: `card answer ${row.verdict}`, id: `answer-${i}`, onclick: () => choose(row.key) },
    h('span', { class: 'kind' }, h('span', { 'aria-hidden': 'true' }, VERDICTS[row.verdict].mark), loss ? ' Contention' : i > 0 ? ' Also worth it' : doubtful ? ' First, if the figures hold' : ' Work on this first'),
    h('span', { class: 'big' }, percent(row.worth.effect), ' ', h('span', { class: 'range' }, interval(row.worth.low, row.worth.high))),
    h('span', { class: 'who' }, cardTitle(row)),
    row.func ? h('span', { class: 'where' }, clean(row.name)) : null,
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

function decoyCard(row, choose) {
  const flat = row.verdict === 'flat';
  const most = Math.max(0, ...row.summary.map((at) => at.high));
  return h(
    'button',
    { type: 'button', class: 'card answer flat', id: 'answer-decoy', onclick: () => choose(row.key) },
    h('span', { class: 'kind' }, h('span', { 'aria-hidden': 'true' }, VERDICTS[row.verdict].mark), flat ? ' Hot, but leave it alone' : ' Hot, but hardly worth it'),
    h('span', { class: 'big' }, percent(row.worth.effect), ' ', h('span', { class: 'range' }, interval(row.worth.low, row.worth.high))),
    h('span', { class: 'who' }, cardTitle(row)),
    row.func ? h('span', { class: 'where' }, clean(row.name)) : null,
    h('span', { class: 'small' }, `${portion(row.share)} of the samples, and ${flat ? 'nobody waits for it' : `worth ${most < 0.005 ? 'nothing' : `at most ${percent(most)}`}, even where its interval ends`}.`),
  );
}
