// Profiles with a known answer, as `coz-bpf run` would write them.
import fs from 'node:fs';

/** Numbers that are the same in each run. */
export function dice(seed) {
  let state = seed;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}

const SECOND = 1e9;
/** So many CPUs are busy: no line can be worth more than its own time. */
const CPUS = 4;

/** Lines of a program: share of the samples, and the effect of a speedup. */
export function program(folder) {
  const source = `${folder}/server.c`;
  const text = Array.from({ length: 120 }, (_, i) => `    step_${i + 1}(state);`);
  text[19] = '    encode(job, <b>"the bottleneck"</b>);';
  fs.writeFileSync(source, `${text.join('\n')}\n`);
  return {
    source,
    lines: [
      { location: `${source}:20`, func: 'server::encode(Job const&)', share: 0.25, effect: (s) => 0.4 * Math.min(s, 0.5) / 0.5 },
      { location: `${source}:50`, func: 'server::decode', share: 0.15, effect: (s) => 0.2 * s },
      { location: `${source}:80`, func: 'audit', share: 0.4, effect: () => 0 },
      { location: `${source}:110`, func: 'spin_lock', share: 0.18, effect: (s) => -0.3 * s },
    ],
  };
}

/** The records of one run: experiments in pairs of a baseline and a speedup. */
export function records({ lines, pairs = 160, point = 'request', seed = 7, ends = true, name = 'server', perVisit: usual = 1e6, more = () => [] }) {
  const random = dice(seed);
  const out = [{ type: 'startup', time: 1, version: 1, program: [`/srv/${name}`, '--port', '8080'], seed: 1, kernel: '6.1.0', rate: 1000, points: [{ name: point, kind: 'throughput' }] }];
  let begin = 0;
  for (let i = 0; i < pairs; i += 1) {
    const line = lines[i % lines.length];
    const level = (1 + Math.floor(20 * random())) / 20;
    for (const speedup of random() < 0.5 ? [0, level] : [level, 0]) {
      const noise = 1 + 0.01 * (random() + random() + random() - 1.5);
      const perVisit = usual * (1 - line.effect(speedup)) * noise;
      const duration = Math.round(0.3 * SECOND);
      const delay = Math.round(speedup * line.share * CPUS * duration);
      out.push({ type: 'experiment', selected: line.location, speedup, duration, selected_samples: Math.round(300 * CPUS * line.share), wall: duration + delay, delay, unpaid: 0, valid: true, begin, selected_weight: Math.round(line.share * CPUS * duration), samples: 300 * CPUS });
      out.push({ type: 'throughput-point', name: point, delta: Math.round(duration / perVisit) });
      out.push(...more(perVisit, duration));
      begin += Math.round(1.05 * duration) + delay;
    }
  }
  if (ends) out.push(...end({ lines, time: begin }));
  return out;
}

/** The same with a latency point besides: three times as long as a visit takes, measured one by one. */
export function latencies(known) {
  const more = (perVisit, duration) => {
    const arrivals = Math.round(duration / 1e6);
    const mean = 3 * perVisit;
    const bucket = Math.floor(32 * Math.log2(mean)) - 32 * 4;
    return [{ type: 'latency-point', name: 'reply', arrivals, departures: arrivals, difference: Math.round((arrivals * mean) / duration * 10), mean_ns: mean, in_system: (arrivals * mean) / duration, measured: arrivals, histogram: [[bucket, arrivals]] }];
  };
  const all = records({ ...known, more });
  all[0].points.push({ name: 'reply', kind: 'latency' });
  return all;
}

/** The end of a run. */
export function end({ lines, time }) {
  const samples = Math.round((CPUS * time) / 1e6);
  return [
    { type: 'runtime', time, samples, undelayed_ns: time / 2, cpu_ns: CPUS * time, owed_ns: time / 10, paid_ns: time / 10, warnings: [], notices: [] },
    ...lines.map((line) => {
      const [, file, number] = /^(.*):(\d+)$/.exec(line.location);
      return { type: 'samples', location: line.location, count: Math.round(line.share * samples), weight_ns: Math.round(line.share * CPUS * time), function: line.func, file, line: Number(number), text: `${line.func}(job);` };
    }),
  ];
}

export function jsonl(all) {
  return all.map((record) => `${JSON.stringify(record)}\n`).join('');
}
