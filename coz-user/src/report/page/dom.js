// Making elements. Text goes in as text and never as markup, whatever it says.

const SVG = 'http://www.w3.org/2000/svg';

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/** Round steps for an axis from `low` to `high`: about `n` of them. */
export function ticks(low, high, n) {
  const raw = (high - low) / Math.max(n, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const all = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9; i += 1) all.push(i * step);
  return all;
}

export function linear([from, to], [a, b]) {
  const scale = (value) => a + ((value - from) / (to - from || 1)) * (b - a);
  scale.ends = [Math.min(from, to), Math.max(from, to)];
  scale.clamped = (value) => scale(Math.min(Math.max(value, Math.min(from, to)), Math.max(from, to)));
  return scale;
}

/** Whether a value lies beyond an end of the scale, and beyond which: above 1, below -1, within 0. */
export function beyond(value, [low, high]) {
  return value > high ? 1 : value < low ? -1 : 0;
}

/** The head of an arrow at the edge where something is cut off: it goes on in this direction (1 up, -1 down). */
export function arrow(x, y, direction, size = 4) {
  const back = y + direction * 1.5 * size;
  return `M${(x - size).toFixed(1)} ${back.toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}L${(x + size).toFixed(1)} ${back.toFixed(1)}`;
}
