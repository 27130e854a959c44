import { expect, test } from 'vitest';
import { keysOf, moveBetween, stepOf } from '../src/moves';
import type { Changes, Row } from '../src/protocol';

const none: Changes = { added: [], changed: [], removed: [] };

function rows(...states: [Row['state'], string?][]): Row[] {
  return states.map(([state, file], index) => ({
    gone: false,
    id: `${index}`,
    number: index,
    code: '',
    at: `2026-11-18T10:00:0${index}Z`,
    seconds: 0,
    ok: true,
    variables: none,
    files: file ? { ...none, added: [file] } : none,
    label: '',
    state
  }));
}

test('an undo, a redo and a way back are moves, with the files they touch', () => {
  const at3 = rows(['past'], ['past', 'a.txt'], ['past', 'b.txt'], ['now']);
  const at1 = rows(['past'], ['now', 'a.txt'], ['undone', 'b.txt'], ['undone']);
  expect(moveBetween(at3, at1)).toMatchObject({
    to: { number: 1 },
    files: ['b.txt']
  });
  expect(moveBetween(at1, at3)).toMatchObject({
    to: { number: 3 },
    files: ['b.txt']
  });
});

test('a cell that ran, one that was stored and a new name are no moves', () => {
  const two = rows(['past'], ['now']);
  expect(moveBetween(two, rows(['past'], ['past'], ['now']))).toBeNull();
  expect(moveBetween(two, two)).toBeNull();
  expect(moveBetween([], two)).toBeNull();
  expect(moveBetween(two, [])).toBeNull();
});

test('arrow keys stay in the list', () => {
  expect(stepOf('ArrowDown', 0, 3)).toBe(1);
  expect(stepOf('ArrowDown', 2, 3)).toBe(2);
  expect(stepOf('ArrowUp', 0, 3)).toBe(0);
  expect(stepOf('End', 0, 3)).toBe(2);
  expect(stepOf('Home', 2, 3)).toBe(0);
  expect(stepOf('PageDown', 5, 100)).toBe(15);
  expect(stepOf('x', 1, 3)).toBeNull();
});

test('a row keeps its key while it waits, and when others come', () => {
  const [a, b] = rows(['past'], ['past']);
  const again = { ...a, id: 'another', at: 'later' };
  const keys = keysOf([b, a]);
  expect(keysOf([again, { ...b, id: '' }, a]).slice(1)).toEqual(keys);
  expect(new Set(keysOf([again, b, a])).size).toBe(3);
});
