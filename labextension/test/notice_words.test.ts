import { nullTranslator } from '@jupyterlab/translation';
import { expect, test } from 'vitest';
import { LONGEST, progressWords, told, versionHint } from '../src/notice_words';
import { type Notice, type Progress, VERSION } from '../src/protocol';

const trans = nullTranslator.load('wasm_kernel');

function notice(
  kind: Notice['kind'],
  values: Notice['values'],
  text = 'in the words of the kernel'
): Notice {
  return { id: 'n', kind, good: kind === 'continued', text, values };
}

const all: [Notice, string, 'info' | 'warning', string[]][] = [
  [
    notice('continued', { at: '2026-11-01T10:00:00Z', cells: [] }),
    'continues from',
    'info',
    ['fresh']
  ],
  [notice('lost', { cells: [7] }), 'while cell [7] ran', 'warning', ['fresh']],
  [
    notice('lost', { cells: [7, 8, 9] }),
    'cells [7] to [9]',
    'warning',
    ['fresh']
  ],
  [notice('unstored', { why: 'disk' }), 'disk is full', 'warning', ['details']],
  [
    notice('unstored', { why: 'quota' }),
    'little space',
    'warning',
    ['details']
  ],
  [notice('unstored', { why: 'off' }), 'switched off', 'warning', ['details']],
  [notice('unstored', { why: 'other' }), 'not stored', 'warning', ['details']],
  [
    notice('prune', { due: '2026-12-01T12:00:00Z', sessions: 1 }),
    'One of your sessions',
    'warning',
    ['details']
  ],
  [
    notice('prune', { due: '2026-12-01T12:00:00Z', sessions: 3 }),
    '3 of your sessions will be deleted, the first on',
    'warning',
    ['details']
  ],
  [notice('note', {}), 'in the words of the kernel', 'warning', []],
  [notice('note', {}, 'x'.repeat(200)), 'xxx', 'warning', ['details']]
];

test.each(all)('%j says %s', (given, text, type, buttons) => {
  const found = told(given, 'a'.repeat(80) + '.ipynb', trans);
  expect(found.message).toContain(text);
  expect(found.type).toBe(type);
  const offered = [found.fresh && 'fresh', found.details && 'details'];
  expect(offered.filter(Boolean)).toEqual(buttons);
  if (!found.details || given.kind !== 'note') {
    expect(found.message.length).toBeLessThanOrEqual(LONGEST); // Lab cuts the rest
  }
});

test('a name that is not long is whole', () => {
  const { message } = told(notice('lost', { cells: [1] }), 'a.ipynb', trans);
  expect(message.startsWith('a.ipynb: ')).toBe(true);
});

test.each<[Progress['state'], string]>([
  ['running', 'step 3 of 5'],
  ['ready', 'is built'],
  ['stopped', 'interrupted'],
  ['failed', 'could not']
])('a build that is %s', (state, text) => {
  const progress = {
    id: 'b',
    state,
    step: 3,
    steps: 5,
    fraction: 0.5,
    text: ''
  };
  const words = progressWords(progress, trans);
  expect(words).toContain(text);
  expect(words.length).toBeLessThanOrEqual(LONGEST);
});

test('whichever end is older, it says what to do', () => {
  const newer = versionHint({ version: VERSION + 1, kernel: '9.9' }, trans);
  expect(newer).toContain('Reload the page');
  expect(newer).toContain('9.9');
  const older = versionHint({ version: VERSION - 1, kernel: '0.0' }, trans);
  expect(older).toContain('Restart the kernel');
  expect(older).toContain('%session');
});
