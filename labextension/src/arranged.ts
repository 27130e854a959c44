import type { Variable } from './protocol';

export type Column = 'name' | 'type' | 'size';

/** The variables that contain a text, in an order. */
export function arranged(
  variables: Variable[],
  text: string,
  column: Column,
  down: boolean
): Variable[] {
  const wanted = text.toLowerCase();
  const found = variables.filter(v =>
    `${v.name} ${v.type}`.toLowerCase().includes(wanted)
  );
  const order = (a: Variable, b: Variable) =>
    column === 'size' ? a.size - b.size : a[column].localeCompare(b[column]);
  found.sort((a, b) => (down ? -1 : 1) * order(a, b));
  return found;
}
