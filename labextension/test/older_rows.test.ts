import { expect, test } from 'vitest';
import { merged, OlderRows } from '../src/older_rows';
import type { Answer, Request, Row } from '../src/protocol';

function row(number: number, gone = true): Row {
  return {
    id: gone ? '' : `${number}`,
    gone,
    number,
    at: `2026-11-18T10:${String(number).padStart(2, '0')}`
  } as Row;
}

/** A kernel with rows of cells that ran long ago. */
function kernel(count: number) {
  const asked: Request[] = [];
  const past = {
    count,
    asked,
    ask: (request: Request): Promise<Answer> => {
      asked.push(request);
      const { skip = 0, count: most = 1 } = request as {
        skip?: number;
        count?: number;
      };
      const all = Array.from({ length: past.count }, (_, n) =>
        row(past.count - n)
      );
      return Promise.resolve({
        answer: 1,
        result: { rows: all.slice(skip, skip + most) }
      });
    }
  };
  return past;
}

test('nothing is asked for before somebody scrolls to it', async () => {
  const past = kernel(250);
  const older = new OlderRows(past);
  older.counted(250);
  expect(past.asked).toEqual([]);
  await older.more();
  expect(older.rows.map(r => r.number).slice(0, 2)).toEqual([250, 249]);
  await older.more();
  await older.more();
  expect(older.rows.length).toBe(250);
  expect(older.hasMore).toBe(false);
  await older.more();
  expect(past.asked.length).toBe(3);
});

test('another cell whose checkpoint goes is the first of them', async () => {
  const past = kernel(5);
  const older = new OlderRows(past);
  older.counted(5);
  await older.more();
  past.count = 6;
  let told = 0;
  older.changed.connect(() => (told += 1));
  older.counted(6);
  await new Promise(resolve => setTimeout(resolve));
  expect(older.rows.map(r => r.number)).toEqual([6, 5, 4, 3, 2, 1]);
  expect(told).toBe(1);
});

test('whoever looks at rows of long ago keeps them while cells run', async () => {
  const past = kernel(250);
  const older = new OlderRows(past);
  older.counted(250);
  await older.more();
  await older.more();
  past.count = 252;
  older.counted(251);
  older.counted(252);
  await new Promise(resolve => setTimeout(resolve));
  expect(older.rows.length).toBe(202);
  expect(older.rows.map(r => r.number)).toEqual(
    Array.from({ length: 202 }, (_, n) => 252 - n)
  );
  past.count = 100; // others altogether
  older.counted(100);
  await new Promise(resolve => setTimeout(resolve));
  expect(older.rows.map(r => r.number)[0]).toBe(100);
});

test('a kernel that has ended leaves what is here', async () => {
  const older = new OlderRows({
    ask: () => Promise.reject(new Error('ended'))
  });
  older.counted(5);
  await older.more();
  expect(older.rows).toEqual([]);
});

test('a moment that has a name stays in its place', () => {
  const kept = [row(9, false), row(8, false), row(3, false)];
  const older = [row(7), row(6), row(2)];
  expect(merged(kept, older).map(r => r.number)).toEqual([9, 8, 7, 6, 3, 2]);
  expect(merged(kept, [])).toEqual(kept);
});
