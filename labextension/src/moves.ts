import type { Row } from './protocol';

/** A step in time: to which row, and the files that it changed back or again. */
export interface Move {
  to: Row;
  files: string[];
}

/** A name for each row that stays the same while it waits to be stored: what ran, and which time of several. */
export function keysOf(rows: Row[]): string[] {
  const seen = new Map<string, number>();
  const keys: string[] = [];
  for (const row of [...rows].reverse()) {
    const ran = `${row.number} ${row.code}`;
    const times = (seen.get(ran) ?? 0) + 1;
    seen.set(ran, times);
    keys.push(`${times} ${ran}`);
  }
  return keys.reverse();
}

/** The undo, redo or restore between two states of one session; null if there was none, as when a cell ran. */
export function moveBetween(before: Row[], after: Row[]): Move | null {
  const names = keysOf(before);
  const earlier = new Map(before.map((row, index) => [names[index], row]));
  const known = keysOf(after).map(key => earlier.get(key));
  const index = after.findIndex(row => row.state === 'now');
  if ((known[index]?.state ?? 'now') === 'now') {
    return null;
  }
  const files = after
    .filter((row, index) => {
      const was = known[index];
      return was && (was.state === 'undone') !== (row.state === 'undone');
    })
    .flatMap(({ files }) => [
      ...files.added,
      ...files.changed,
      ...files.removed
    ]);
  return { to: after[index], files: [...new Set(files)].sort() };
}

/** Where an arrow key leads in a list; null for keys that lead nowhere. */
export function stepOf(
  key: string,
  index: number,
  length: number
): number | null {
  const last = length - 1;
  const steps: { [key: string]: number } = {
    ArrowUp: Math.max(0, index - 1),
    ArrowDown: Math.min(last, index + 1),
    PageUp: Math.max(0, index - 10),
    PageDown: Math.min(last, index + 10),
    Home: 0,
    End: last
  };
  return steps[key] ?? null;
}
