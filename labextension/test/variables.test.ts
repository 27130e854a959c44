import { expect, test } from 'vitest';
import { arranged, type Column, firstText, opens } from '../src/arranged';

const variables = [
  { name: 'beta', type: 'list', size: 3, value: '' },
  { name: 'alpha', type: 'int', size: 0, value: '7' },
  { name: 'gamma', type: 'DataFrame', size: 40, value: '' }
];
const values = {
  beta: { shape: [3], bytes: 88, first: "['Bern', …]", opens: true },
  gamma: { shape: [10, 4], bytes: 320, first: 'n: 1, 2', opens: true }
};
const names = (text: string, column: Column, down: boolean) =>
  arranged(variables, values, text, column, down).map(v => v.name);

test('by name, type, shape and size, up and down', () => {
  expect(names('', 'name', false)).toEqual(['alpha', 'beta', 'gamma']);
  expect(names('', 'name', true)).toEqual(['gamma', 'beta', 'alpha']);
  expect(names('', 'shape', true)).toEqual(['gamma', 'beta', 'alpha']);
  expect(names('', 'bytes', false)).toEqual(['alpha', 'beta', 'gamma']);
  expect(names('', 'type', false)).toEqual(['gamma', 'alpha', 'beta']);
});

test('names that end in numbers are in the order of these', () => {
  const numbered = ['v10', 'v2', 'v1'].map(name => ({
    ...variables[0],
    name
  }));
  const found = arranged(numbered, {}, '', 'name', false);
  expect(found.map(v => v.name)).toEqual(['v1', 'v2', 'v10']);
});

test('a search looks at names, types and first values', () => {
  expect(names('frame', 'name', false)).toEqual(['gamma']);
  expect(names('ALPHA', 'name', false)).toEqual(['alpha']);
  expect(names('bern', 'name', false)).toEqual(['beta']);
});

test('a value from the report is shown until there are first values', () => {
  const [alpha, beta] = arranged(variables, values, '', 'name', false);
  expect(firstText(alpha)).toBe('7');
  expect(firstText(beta)).toBe("['Bern', …]");
});

test('what opens as a table, known or by its type', () => {
  const [alpha, beta, gamma] = arranged(variables, {}, '', 'name', false);
  expect([alpha, beta, gamma].map(opens)).toEqual([false, true, true]);
  expect(opens({ ...beta, ...values.beta, opens: false })).toBe(false);
});
