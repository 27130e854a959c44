import type { FirstValues, Variable } from './protocol';

export type Column = 'name' | 'type' | 'shape' | 'bytes';

/** A variable with its first values, as far as they are known. */
export interface Described extends Variable, Partial<FirstValues> {}

/** The variables that contain a text, in an order. */
export function arranged(
  variables: Variable[],
  values: { [name: string]: FirstValues },
  text: string,
  column: Column,
  down: boolean
): Described[] {
  const wanted = text.toLowerCase();
  const found = variables
    .map((variable): Described => ({ ...variable, ...values[variable.name] }))
    .filter(v => searched(v).toLowerCase().includes(wanted));
  const order = (a: Described, b: Described) => {
    switch (column) {
      case 'shape':
        return items(a) - items(b);
      case 'bytes':
        return (a.bytes ?? 0) - (b.bytes ?? 0);
      default:
        return a[column].localeCompare(b[column], undefined, { numeric: true });
    }
  };
  found.sort((a, b) => (down ? -1 : 1) * order(a, b));
  return found;
}

const TABLES = ['DataFrame', 'Series', 'ndarray', 'list', 'tuple'];

/** Whether a variable opens as a table; by its type until that is known. */
export function opens(variable: Described): boolean {
  return variable.opens ?? TABLES.includes(variable.type);
}

/** What a variable shows of its values. */
export function firstText(variable: Described): string {
  return variable.first || variable.value;
}

function searched(variable: Described): string {
  return `${variable.name} ${variable.type} ${firstText(variable)}`;
}

function items(variable: Described): number {
  const { shape, size } = variable;
  return shape?.length ? shape.reduce((all, count) => all * count, 1) : size;
}
