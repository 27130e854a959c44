import { expect, test } from 'vitest';
import { changesOf, typed } from '../src/limit_changes';

const limits = {
  memory: { value: '2.0 GB', most: '4.0 GB' },
  timeout: { value: 'no limit', most: 'no limit' },
  files: { value: '10,000', most: '1,000,000' }
};

test('fields hold what the kernel would take', () => {
  expect(typed(limits)).toEqual({
    memory: '2.0 GB',
    timeout: 'off',
    files: '10,000'
  });
});

test('only what a person changed is asked for', () => {
  expect(changesOf(limits, typed(limits))).toBe('');
  expect(changesOf(limits, { ...typed(limits), memory: '3 G' })).toBe(
    'memory=3G'
  );
  expect(
    changesOf(limits, { memory: '2.0GB', timeout: '60 s', files: ' ' })
  ).toBe('timeout=60s files=off');
});
