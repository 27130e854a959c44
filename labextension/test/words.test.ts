import { expect, test } from 'vitest';
import type { Row } from '../src/protocol';
import {
  duration,
  firstLine,
  isCut,
  isEmpty,
  laterCells,
  signs,
  size,
  undoneCells,
  when
} from '../src/words';

const none = { added: [], changed: [], removed: [] };

function row(number: number, code: string, state: Row['state']): Row {
  return {
    id: `${number} ${code} ${state}`,
    gone: false,
    number,
    code,
    at: '2026-11-18T10:00:00Z',
    seconds: 0.1,
    ok: true,
    variables: none,
    files: none,
    label: '',
    state
  };
}

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1023.9 * 1024, '1.0 MB'],
  [1536, '1.5 KB'],
  [229834752, '219 MB'],
  [4 * 2 ** 30, '4.0 GB']
])('%d bytes are %s', (bytes, text) => {
  expect(size(bytes)).toBe(text);
});

test.each([
  [0.0002, '< 1 ms'],
  [0.0123, '12 ms'],
  [3.21, '3.2 s'],
  [0.99951, '1.0 s'],
  [59.96, '1 min'],
  [75, '1 min 15 s'],
  [119.7, '2 min'],
  [120, '2 min']
])('%d seconds are %s', (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test('a time of another day has its date', () => {
  const now = new Date('2026-11-18T12:00:00Z');
  expect(when('2026-11-18T10:00:00Z', now).length).toBeLessThan(
    when('2026-11-01T10:00:00Z', now).length
  );
});

test('names are cut where there may be more of them', () => {
  const names = ['a', 'b'];
  expect(isCut({ ...none, removed: names }, 3)).toBe(false);
  expect(isCut({ ...none, removed: names }, 2)).toBe(true);
});

test('the first line that says something', () => {
  expect(firstLine('\n\n  x = 1\ny = 2')).toBe('  x = 1');
  expect(firstLine('')).toBe('');
});

test('changes become signs', () => {
  const changes = { added: ['a'], changed: ['b'], removed: ['c'] };
  expect(signs(changes).map(c => c.sign + c.name)).toEqual(['+a', '~b', '−c']);
  expect(isEmpty(changes)).toBe(false);
  expect(isEmpty(none)).toBe(true);
});

test('what a cell is called and changed hides nothing', () => {
  const changes = { ...none, added: ['a\u202egnp.exe', 'same\u200b.txt'] };
  expect(signs(changes).map(c => c.name)).toEqual([
    'a\ufffdgnp.exe',
    'same\ufffd.txt'
  ]);
  expect(firstLine('\tx = 1 # \u202e2')).toBe(' x = 1 # \ufffd2');
});

test('a cell was undone if only undone rows have its number and code', () => {
  const rows = [
    row(3, 'y = 3', 'undone'),
    row(2, 'x = 2', 'now'),
    row(2, 'x = 1', 'undone')
  ];
  const cells = [
    { number: 2, code: 'x = 2' },
    { number: 2, code: 'x = 1\n' },
    { number: 3, code: 'y = 3' },
    { number: 3, code: 'y = 4' },
    { number: null, code: 'y = 3' }
  ];
  expect(undoneCells(rows, cells)).toEqual([false, true, true, false, false]);
});

test('a cell ran later than a row if only rows above that have its number and code', () => {
  const rows = [
    row(4, 'z', 'now'),
    row(3, 'y = 3', 'undone'),
    row(2, 'x = 2', 'past'),
    row(1, 'x = 1', 'past')
  ];
  const cells = [
    { number: 1, code: 'x = 1' },
    { number: 2, code: 'x = 2' },
    { number: 3, code: 'y = 3' },
    { number: 4, code: 'z' },
    { number: 9, code: 'of another day' },
    { number: null, code: 'z' }
  ];
  const later = laterCells(rows, rows[2].id, cells);
  expect(later).toEqual([false, false, true, true, false, false]);
  expect(laterCells(rows, rows[0].id, cells)).not.toContain(true);
});
