// Light and dark: the system's choice until somebody makes one.
import { byId } from './dom.js';

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

const THEMES = { auto: 'system', light: 'light', dark: 'dark' };
let theme = remembered('coz-bpf-theme') ?? 'auto';

/** Puts the choice on. */
export function dress() {
  if (!(theme in THEMES)) theme = 'auto';
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId('theme').textContent = `Colours: ${THEMES[theme]}`;
}

/** Light, dark, the system's choice, in turn; what looks different comes first. */
export function nextTheme() {
  const dark = theme === 'auto' ? window.matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark';
  const order = dark ? ['auto', 'light', 'dark'] : ['auto', 'dark', 'light'];
  theme = theme === 'auto' ? order[1] : theme === order[2] ? 'auto' : order[2];
  theme = remembered('coz-bpf-theme', theme) ?? theme;
  dress();
}
