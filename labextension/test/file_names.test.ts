import { expect, test } from 'vitest';
import {
  Keys,
  readable,
  readableLines,
  shownNames,
  withFreeName
} from '../src/file_names';

test('nothing in a name hides, reorders or breaks a line', () => {
  expect(readable('a\u202egnp.exe')).toBe('a\ufffdgnp.exe');
  expect(readable('one\ntwo\0\x1b[31m\u2028')).toBe(
    'one\ufffdtwo\ufffd\ufffd[31m\ufffd'
  );
  for (const plain of ['größe (2).csv', '名前.txt', '👩‍🔬.png', ' a\\b:c%2F']) {
    expect(readable(plain)).toBe(plain);
  }
  expect(readableLines('if x:\n\ty\u202e')).toBe('if x:\n    y\ufffd');
});

test('no two names of a folder look the same', () => {
  expect(shownNames(['a\n', 'a\u200b', 'a\ufffd', 'b', 'a\ufffd (2)'])).toEqual(
    ['a\ufffd (3)', 'a\ufffd (4)', 'a\ufffd', 'b', 'a\ufffd (2)']
  );
  // Bytes that are no text look the same already when they come.
  expect(shownNames(['x\ufffd', 'x\ufffd'])).toEqual([
    'x\ufffd',
    'x\ufffd (2)'
  ]);
});

test('keys lead back to what is shown by another name', () => {
  const keys = new Keys();
  keys.learn('s/plain (1).csv', 'plain (1).csv', 's/plain%20%281%29.csv');
  expect(keys.of('s/plain (1).csv')).toBe('s/plain%20(1).csv');
  keys.learn('s/a\ufffd', 'a\n', 's/a%0A');
  expect(keys.of('s/a\ufffd')).toBe('s/a%0A');
  expect(keys.of('s/a\ufffd/new file.txt')).toBe('s/a%0A/new%20file.txt');
  keys.learn('s/odd\ufffd', 'odd\ufffd', 's/odd%FF');
  expect(keys.of('s/odd\ufffd/x')).toBe('s/odd%FF/x');
  expect(keys.of('s/..%2fx?#')).toBe('s/..%252fx%3F%23');
});

test('a name that is taken gets a number', async () => {
  const taken = new Set(['a.tar.gz', 'a.tar-Copy1.gz', '.hidden']);
  const make = (name: string) =>
    taken.has(name) ? Promise.reject(new Error(name)) : Promise.resolve(name);
  const numbered = (stem: string, number: number) => `${stem}-Copy${number}`;
  const free = (name: string, isTaken = () => true) =>
    withFreeName(name, numbered, make, isTaken);
  expect(await free('a.tar.gz')).toBe('a.tar-Copy2.gz');
  expect(await free('.hidden')).toBe('.hidden-Copy1');
  expect(await free('b')).toBe('b');
  await expect(free('.hidden', () => false)).rejects.toThrow('.hidden');
});
