/** Numbers, times and changes as people read them. */

import { readable } from './file_names';
import type { Changes, Page, Row } from './protocol';

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB'];

/** 1536 → "1.5 KB". */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** [1000, 3] → "1,000 × 3". */
export function shapeText(shape: number[]): string {
  return shape.map(count => count.toLocaleString()).join(' × ');
}

/** What a table is: "DataFrame, 1,000 × 3". */
export function tableText(page: Page): string {
  const shape = shapeText(page.shape.length ? page.shape : [page.rows]);
  return `${page.kind}, ${shape}`;
}

/** 0.0123 → "12 ms"; 75 → "1 min 15 s". */
export function duration(seconds: number): string {
  if (seconds < 0.001) {
    return '< 1 ms';
  }
  if (seconds < 0.9995) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const rest = whole % 60;
  return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
}

/** A time of today by the clock, an earlier one with its date. */
export function when(at: string, now: Date = new Date()): string {
  const time = new Date(at);
  const clock = time.toLocaleTimeString(undefined, {
    hour: '2-digit',
    minute: '2-digit'
  });
  return time.toDateString() === now.toDateString()
    ? clock
    : `${time.toLocaleDateString()} ${clock}`;
}

/** The first line of code that says something. */
export function firstLine(code: string): string {
  const line = code.split('\n').find(line => line.trim()) ?? '';
  return readable(line.replace(/\t/g, ' '));
}

/** Whether a cell changed nothing. */
export function isEmpty(changes: Changes): boolean {
  return !(
    changes.added.length ||
    changes.changed.length ||
    changes.removed.length
  );
}

/** Whether there may be more names than were told. */
export function isCut(
  changes: { [kind in keyof Changes]: unknown[] },
  most: number
): boolean {
  return Object.values(changes).some(names => names.length >= most);
}

/** Changes as signs and names: "+x", "~y", "−z". */
export function signs(
  changes: Changes
): { sign: string; kind: keyof Changes; name: string }[] {
  const kinds: [keyof Changes, string][] = [
    ['added', '+'],
    ['changed', '~'],
    ['removed', '−']
  ];
  return kinds.flatMap(([kind, sign]) =>
    changes[kind].map(name => ({ sign, kind, name: readable(name) }))
  );
}

/** Which of a notebook's cells were undone: those whose number and code only undone rows have. */
export function undoneCells(
  rows: Row[],
  cells: { number: number | null; code: string }[]
): boolean[] {
  const key = (number: number | null, code: string) =>
    `${number}\n${code.trim().slice(0, 500)}`;
  const undone = new Set<string>();
  for (const row of rows) {
    if (row.state === 'undone') {
      undone.add(key(row.number, row.code));
    }
  }
  for (const row of rows) {
    if (row.state !== 'undone') {
      undone.delete(key(row.number, row.code));
    }
  }
  return cells.map(
    cell => cell.number !== null && undone.has(key(cell.number, cell.code))
  );
}

/** Which cells ran after a row's moment, as far as the rows tell. */
export function laterCells(
  rows: Row[],
  id: string,
  cells: { number: number | null; code: string }[]
): boolean[] {
  const at = rows.findIndex(row => row.id === id);
  const seen = rows.map((row, index): Row => {
    return { ...row, state: index < at ? 'undone' : 'past' };
  });
  return undoneCells(seen, cells);
}
