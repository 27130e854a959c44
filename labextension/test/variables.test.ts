import { expect, test } from 'vitest';
import { arranged } from '../src/arranged';

const variables = [
  { name: 'beta', type: 'list', size: 3, value: '' },
  { name: 'alpha', type: 'int', size: 0, value: '7' },
  { name: 'gamma', type: 'DataFrame', size: 40, value: '' }
];
const names = (...args: [string, 'name' | 'type' | 'size', boolean]) =>
  arranged(variables, ...args).map(v => v.name);

test('by name, by type and by size, up and down', () => {
  expect(names('', 'name', false)).toEqual(['alpha', 'beta', 'gamma']);
  expect(names('', 'name', true)).toEqual(['gamma', 'beta', 'alpha']);
  expect(names('', 'size', true)).toEqual(['gamma', 'beta', 'alpha']);
  expect(names('', 'type', false)).toEqual(['gamma', 'alpha', 'beta']);
});

test('a search looks at names and types', () => {
  expect(names('frame', 'name', false)).toEqual(['gamma']);
  expect(names('ALPHA', 'name', false)).toEqual(['alpha']);
});
