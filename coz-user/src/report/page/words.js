// Numbers and verdicts in words. Pure.

/** What each verdict means; the order is that of importance. Marks differ by shape, not by colour alone. */
export const VERDICTS = {
  optimize: { mark: '▲', name: 'optimise', means: 'making it faster makes the program faster' },
  contention: { mark: '▼', name: 'contention', means: 'making it faster makes the program slower: it gets in others’ way at something shared' },
  flat: { mark: '●', name: 'no gain', means: 'making it faster gains nothing; that is shown, not merely not refuted' },
  undecided: { mark: '○', name: 'undecided', means: 'the data do not tell yet' },
  untried: { mark: '·', name: 'not tried', means: 'samples only: no experiment that counts' },
};

const MINUS = '−';
// With a blank at which no line is broken.
const UNIT = '\u00a0%';

/** `+38 %`; null is a dash. */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return '–';
  const whole = Math.round(100 * share);
  if (whole === 0) return `0${UNIT}`;
  return `${whole < 0 ? MINUS : '+'}${Math.abs(whole)}${UNIT}`;
}

/** `30.5 %`, without a sign. */
export function portion(share) {
  const value = 100 * share;
  return `${value >= 99.95 ? 100 : value.toFixed(1)}${UNIT}`;
}

/** The interval in words: `57 to 62`. */
export function interval(low, high) {
  if (low === null || high === null || low === undefined || high === undefined) return 'not known yet';
  if (high - low > 2) return 'unsure';
  const whole = (share) => {
    const n = Math.round(100 * share);
    return n < 0 ? `${MINUS}${-n}` : `${n === 0 ? 0 : n}`;
  };
  return `${whole(low)} to ${whole(high)}`;
}

export function thousands(n) {
  return Math.round(n).toLocaleString('en');
}

/** `1 line`, `2 lines`. */
export function plural(n, what) {
  return `${thousands(n)} ${what}${n === 1 ? '' : 's'}`;
}

/** Nanoseconds in the unit that suits them. */
export function time(ns) {
  const [value, unit] = ns >= 1e9 ? [ns / 1e9, 's'] : ns >= 1e6 ? [ns / 1e6, 'ms'] : ns >= 1e3 ? [ns / 1e3, 'µs'] : [ns, 'ns'];
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

/** What cannot be seen, or changes how other text is seen, made visible. */
export function clean(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');
}

/** What a gain is a share of. */
export function saved(point) {
  if (!point) return 'time';
  if (point.name === 'end-to-end') return 'the running time';
  return point.kind === 'latency' ? `the latency of ${clean(point.name)}` : `the time per visit of ${clean(point.name)}`;
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The verdict on a line, in a sentence. */
export function sentence(row) {
  const worth = row.worth;
  switch (row.verdict) {
    case 'optimize': {
      const enough = row.summary.find((at) => at.speedup < worth.speedup && at.effect >= 0.85 * worth.effect);
      const last = row.summary[row.summary.length - 1].speedup;
      const at = enough ?? (worth.speedup < last ? worth : null);
      const untried = last < 1 ? `, if it takes ${Math.round(100 * last)}${UNIT} less time; more was not tried` : '';
      const most = at ? `; most of it once it takes ${Math.round(100 * at.speedup)}${UNIT} less time` : untried;
      return `Optimise: saves up to ${percent(worth.effect).slice(1)} (95 % interval ${interval(worth.low, worth.high)})${most}.`;
    }
    case 'contention':
      return `Contention: made faster, it slows the program down, by up to ${percent(-worth.effect).slice(1)} (95 % interval of the effect ${interval(worth.low, worth.high)}). Look for what it shares: a lock, a queue, a cache line.`;
    case 'flat':
      return 'No gain: making this line faster does not make the program faster, whatever its share of the samples.';
    case 'untried':
      return 'No experiment on this line counts, so only its share of the samples is known.';
    default:
      if (row.hidden) return `${capital(row.open)}.`;
      return `Undecided: at best ${percent(worth ? worth.high : null)}, at worst ${percent(worth ? worth.low : null)}. ${capital(row.open)}.`;
  }
}
