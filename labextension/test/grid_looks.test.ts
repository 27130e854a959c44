import { expect, test, vi } from 'vitest';

vi.mock('@lumino/datagrid', () => ({
  RendererMap: class {},
  TextRenderer: class {}
}));
const { isNumber, labelWidths, textOf, widths } =
  await import('../src/grid_looks');

const page = {
  kind: 'DataFrame',
  shape: [2, 2],
  at: [],
  rows: 2,
  columns: 2,
  row: 0,
  column: 0,
  levels: ['the name of the index'],
  labels: [['0', '1']],
  names: ['n', 'text'],
  types: ['int64', 'object'],
  cells: [
    ['1', '2'],
    ['x'.repeat(200), ['NaN']]
  ] as (string | [string])[][]
};

test('numbers are aligned at their right', () => {
  const numbers = ['int64', 'uint8', 'float32', 'complex128', 'Int64'];
  expect(numbers.every(isNumber)).toBe(true);
  const others = ['object', 'bool', 'datetime64[ns]', 'str', '', 'interval'];
  expect(others.some(isNumber)).toBe(false);
});

test('a column is as wide as what is in it, within bounds', () => {
  expect(widths(page, 7)).toEqual([56, 280]);
  expect(labelWidths(page, 7)).toEqual([21 * 7 + 20]);
  const named = { ...page, names: ['column_160', ''] }; // in bold letters
  expect(widths(named, 7)[0]).toBe(12 * 7 + 20);
});

test('the text of what is not here yet, and of what stands for something', () => {
  expect([null, ['NaN'], 'x'].map(textOf)).toEqual(['…', 'NaN', 'x']);
});
