// What the tests need around a page: the profiler, a browser, a folder, and what nobody may see on the console.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

export const BIN = process.env.COZ_BPF_BIN;
assert.ok(BIN, 'COZ_BPF_BIN names the profiler: `cargo xtask test page` sets it');

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'coz-bpf-page-'));

/** Debian's browser; as root it has no sandbox to put itself into. */
export async function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

export async function report(profile, ...args) {
  await promisify(execFile)(BIN, ['report', profile, ...args], { maxBuffer: 1 << 30 });
}

/** A page that fails the test by what it says on the console, and asks nobody but its own server. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  const page = await context.newPage();
  const said = [];
  page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`error: ${error.message}`));
  const origin = url.startsWith('file:') ? url : new URL(url).origin;
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) said.push(`asked for ${request.url()}`);
  });
  await page.goto(url);
  await page.locator('table.lines').waitFor();
  return {
    page,
    said,
    async close() {
      assert.deepEqual(said, [], 'nothing on the console');
      await context.close();
    },
  };
}

/** `coz-bpf view`: its address, and its end, which comes with the test's at the latest. */
export async function view(test, profile, ...args) {
  const child = spawn(BIN, ['view', '--no-open', ...args, profile], { stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (bytes) => {
      text += bytes;
      const found = /http:\S+/.exec(text);
      if (found) resolve(found[0]);
    });
    child.on('exit', (code) => reject(new Error(`coz-bpf view ended with ${code}: ${text}`)));
  });
  test.after(() => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
  return {
    address,
    stop() {
      child.kill('SIGINT');
      return ended;
    },
  };
}

/** Pictures to be looked at, where somebody wants them: SHOTS=folder. */
export async function shot(page, name) {
  if (process.env.SHOTS) await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`), fullPage: true });
}
