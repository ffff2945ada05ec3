// What other programs make of our files: coz's own viewer as Debian ships it, and the published schema.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import Ajv from 'ajv/dist/2020.js';
import { BIN, folder, launch, report, shot } from './browser.mjs';
import { jsonl, latencies, program, records } from './profile.mjs';

const VIEWER = process.env.COZ_VIEWER ?? '/usr/share/coz-profiler/viewer/index.htm';
const SCHEMA = new URL('../../docs/report.schema.json', import.meta.url);
const file = (name) => path.join(folder, name);
const known = program(folder);
const run = promisify(execFile);
let browser;

before(async () => {
  assert.ok(fs.existsSync(VIEWER), `coz's viewer is not at ${VIEWER}: apt-get install -y --no-install-recommends coz-profiler`);
  fs.writeFileSync(file('known.jsonl'), jsonl(records(known)));
  fs.writeFileSync(file('latency.jsonl'), jsonl(latencies(known)));
  for (const name of ['known', 'latency']) await report(file(`${name}.jsonl`), '--coz', file(`${name}.coz`));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  fs.rmSync(folder, { recursive: true, force: true });
});

/** What coz's viewer draws of a profile: of each line its name, its curves and how many points they have. */
async function drawn(profile) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  const said = [];
  page.on('pageerror', (error) => said.push(error.message));
  await page.goto(pathToFileURL(VIEWER).href);
  await page.setInputFiles('#load-profile-file', profile);
  // The button is in a dialog that nobody has opened.
  await page.locator('#load-profile-open-btn').evaluate((button) => button.click());
  await page.locator('div.plot svg g.series').first().waitFor({ state: 'attached' });
  await page.waitForTimeout(800);
  const plots = await page.locator('div.plot').evaluateAll((all) =>
    all.map((plot) => ({
      name: plot.querySelector('.plot-title').textContent,
      curves: [...plot.querySelectorAll('g.series path')].filter((one) => /^M.*\d/.test(one.getAttribute('d') ?? '')).length,
      points: plot.querySelectorAll('g.series circle').length,
      box: plot.querySelector('svg').getBoundingClientRect().height,
    })),
  );
  const warnings = await page.locator('#warning-area .alert').allInnerTexts();
  await shot(page, `coz-viewer-${path.basename(profile)}`);
  await page.close();
  assert.deepEqual(said, [], 'no error in the viewer');
  assert.deepEqual(warnings, [], 'no line that it does not know');
  return plots.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/** The largest and the least effect of line 20 on a point, as coz's viewer computes it. */
async function signs(profile, point) {
  const page = await browser.newPage();
  await page.goto(pathToFileURL(VIEWER).href);
  const effects = await page.evaluate(([text, name]) => {
    const [line] = new window.Profile(text).getSpeedupData(2).filter((one) => one.name.endsWith(':20'));
    return line.progress_points.find((one) => one.name === name).measurements.map((one) => one.progress_speedup);
  }, [fs.readFileSync(profile, 'utf8'), point]);
  await page.close();
  return [Math.max(...effects), Math.min(...effects)];
}

for (const kind of ['jsonl', 'coz']) {
  test(`coz's own viewer draws our profile: ${kind}`, async () => {
    const plots = await drawn(file(`known.${kind}`));
    assert.deepEqual(plots.map((plot) => plot.name), ['server.c:20', 'server.c:50', 'server.c:80', 'server.c:110']);
    for (const plot of plots) {
      assert.equal(plot.curves, 1, `${plot.name} has its curve`);
      assert.ok(plot.points > 10 && plot.box > 100, `${plot.name}: ${plot.points} points`);
    }
  });

  test(`and one with a latency point: ${kind}`, async () => {
    const plots = await drawn(file(`latency.${kind}`));
    assert.equal(plots.length, 4);
    // The bottleneck's latency is three visits long, so it saves as large a share of it: up to 40 % in the text form. Of the other
    // form the viewer turns the sign of latencies around.
    const [most, least] = await signs(file(`latency.${kind}`), kind === 'coz' ? 'reply (latency)' : 'reply');
    if (kind === 'coz') assert.ok(Math.abs(most - 0.4) < 0.05 && least > -0.05, `${least} to ${most}`);
    else assert.ok(Math.abs(least + 0.4) < 0.1 && most < 0.1, `the viewer has learnt the sign: mend docs/coz-users.md (${least} to ${most})`);
    assert.ok(plots.every((plot) => plot.curves === 2 && plot.points > 20), JSON.stringify(plots));
  });
}

test('what coz recorded long ago is read', async () => {
  const samples = path.join(path.dirname(VIEWER), 'profiles');
  const names = fs.readdirSync(samples).filter((name) => name.endsWith('.coz'));
  assert.ok(names.length >= 5, names.join(', '));
  for (const name of names) {
    const { stdout } = await run(BIN, ['report', '--json', path.join(samples, name)], { maxBuffer: 1 << 28 });
    const found = JSON.parse(stdout);
    assert.ok(found.experiments > 100 && found.lines.length > 0, `${name}: ${found.experiments} experiments`);
    assert.ok(found.points.every((point) => point.visits > 0), name);
    assert.ok(found.lines.some((line) => line.summary.length > 2), `${name}: curves`);
  }
});

test('report --json is as its schema says', async () => {
  const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true });
  const check = ajv.compile(JSON.parse(fs.readFileSync(SCHEMA, 'utf8')));
  const nothing = file('nothing.jsonl');
  fs.writeFileSync(nothing, '{"type":"startup","time":1}\n');
  const broken = file('broken.jsonl');
  fs.writeFileSync(broken, jsonl(records({ ...known, pairs: 3, ends: false })) + '{"type":"exp');
  for (const name of ['known.jsonl', 'latency.jsonl', 'known.coz', 'latency.coz', 'nothing.jsonl', 'broken.jsonl', ...(process.env.COZ_BPF_PROFILES?.split(':') ?? [])]) {
    const { stdout } = await run(BIN, ['report', '--json', path.isAbsolute(name) ? name : file(name)], { maxBuffer: 1 << 28 });
    check(JSON.parse(stdout));
    assert.equal(ajv.errorsText(check.errors), 'No errors', name);
  }
  assert.ok(!check({ program: [] }), 'and something that is none is refused');
});

test('folded stacks are what flame graph tools read', async () => {
  for (const by of ['time', 'worth']) {
    const { stdout } = await run(BIN, ['report', '--folded', '-', '--folded-by', by, file('known.jsonl')]);
    const lines = stdout.trim().split('\n');
    assert.ok(lines.length >= 2, stdout);
    for (const line of lines) assert.match(line, /^[^;]+;[^;]+:\d+ \d+$/);
    const most = lines.reduce((a, b) => (Number(/\d+$/.exec(a)) > Number(/\d+$/.exec(b)) ? a : b));
    assert.match(most, by === 'time' ? /^audit;/ : /^server::encode/, 'the hottest line is not the one that is worth most');
  }
});

test('diff: a page that stands alone, clean for axe, in light and dark', async () => {
  // Line 20 takes half of its time after the change; 12 lines were put in above it.
  const shift = (location) => location.replace(/:(\d+)$/, (_, n) => `:${Number(n) + 12}`);
  const faster = known.lines.map((line, i) => ({ ...line, location: shift(line.location), share: i === 0 ? 0.17 : line.share / 0.6 }));
  fs.writeFileSync(file('after.jsonl'), jsonl(records({ lines: faster, perVisit: 0.6e6, seed: 11 })));
  const html = file('diff.html');
  await run(BIN, ['diff', file('known.jsonl'), file('after.jsonl'), '--html', html]);
  const { stdout } = await run(BIN, ['diff', '--json', file('known.jsonl'), file('after.jsonl')]);
  const schema = JSON.parse(fs.readFileSync(new URL('../../docs/diff.schema.json', import.meta.url), 'utf8'));
  const check = new Ajv({ strict: true, allowUnionTypes: true }).compile(schema);
  assert.ok(check(JSON.parse(stdout)), JSON.stringify(check.errors));
  const [point] = JSON.parse(stdout).points;
  assert.ok(Math.abs(point.realised.value - 0.4) < 0.02, JSON.stringify(point.realised));
  assert.ok(Math.abs(point.predicted.value - 0.4) < 0.03, JSON.stringify(point.predicted));
  assert.equal(point.outcome, 'as-predicted');
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [400, 1600]) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      const said = [];
      page.on('console', (message) => said.push(message.text()));
      page.on('request', (request) => request.url().startsWith('file:') || said.push(request.url()));
      await page.goto(pathToFileURL(html).href);
      assert.match(await page.locator('.outcome .verdict-text').innerText(), /predicted .* realised .*: as predicted/i);
      assert.equal(await page.locator('script').count(), 0);
      assert.ok((await page.locator('.bars .realised').boundingBox()).width > 20);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `fits ${width}`);
      await page.evaluate(fs.readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8'));
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(' ')).join(', ')}`), []);
      await shot(page, `diff-${colorScheme}-${width}`);
      assert.deepEqual(said, []);
      await context.close();
    }
  }
});
