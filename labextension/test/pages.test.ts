import { expect, test } from 'vitest';
import { type Change, Pages } from '../src/pages';
import {
  type Answer,
  type Cell,
  PAGE_COLUMNS,
  PAGE_ROWS
} from '../src/protocol';

const settled = () => new Promise(resolve => setTimeout(resolve));

/** A sandbox with a table; what is asked of it waits until it is let go on. */
class Sandbox {
  rows = 10_000_000;
  columns = 100;
  mark = '';
  asked: string[] = [];
  told: Change[] = [];
  pages = new Pages(
    async (row, column, at) => {
      this.asked.push(`${row}/${column}`);
      await settled();
      return this.says(row, column, at);
    },
    change => this.told.push(change)
  );

  readonly page = (row: number, column: number, at: string): Answer => {
    const height = Math.min(PAGE_ROWS, this.rows - row);
    const width = Math.min(PAGE_COLUMNS, this.columns - column);
    const cell = (i: number, j: number): Cell =>
      `${this.mark}${at}${row + i}:${column + j}`;
    const rows = Array.from({ length: height }, (_, i) => i);
    const columns = Array.from({ length: width }, (_, j) => j);
    return {
      answer: 1,
      result: {
        kind: 'DataFrame',
        shape: [this.rows, this.columns],
        at: [],
        rows: this.rows,
        columns: this.columns,
        row,
        column,
        levels: [''],
        labels: [rows.map(i => `label ${row + i}`)],
        names: columns.map(j => `name ${column + j}`),
        types: columns.map(() => 'int64'),
        cells: columns.map(j => rows.map(i => cell(i, j)))
      }
    };
  };
  says = this.page;

  async quiet(): Promise<void> {
    for (let i = 0; i < 40; i++) {
      await settled();
    }
  }
}

test('only what is looked at is fetched, however many rows there are', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  expect(sandbox.pages.rows).toBe(10_000_000);
  expect(sandbox.pages.cell(9_999_999, 99)).toBe(null);
  await sandbox.quiet();
  expect(sandbox.pages.cell(9_999_999, 99)).toBe('9999999:99');
  expect(sandbox.pages.label(9_999_999, 0)).toBe('label 9999999');
  expect(sandbox.pages.heading(99)).toEqual({ name: 'name 99', type: 'int64' });
  expect(sandbox.asked).toEqual(['0/0', '9999800/80']);
});

test('what was scrolled past is not fetched, and few pages are kept', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  for (let row = 0; row < 1_000_000; row += PAGE_ROWS) {
    sandbox.pages.cell(row, 0);
  }
  await sandbox.quiet();
  expect(sandbox.asked.length).toBeLessThan(10);
  expect(sandbox.pages.cell(999_800, 0)).toBe('999800:0');
});

test('one request at a time', async () => {
  const sandbox = new Sandbox();
  let under_way = 0;
  let most = 0;
  const pages = new Pages(
    async (row, column) => {
      most = Math.max(most, ++under_way);
      await settled();
      under_way--;
      return sandbox.page(row, column, '');
    },
    () => undefined
  );
  pages.refresh('1');
  await sandbox.quiet();
  for (let row = 0; row < 2000; row += PAGE_ROWS) {
    pages.cell(row, 0);
  }
  await sandbox.quiet();
  expect(most).toBe(1);
});

test('after a cell what is seen is fetched again, and stays until then', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  expect(sandbox.pages.cell(0, 0)).toBe('0:0');
  sandbox.mark = 'new ';
  sandbox.pages.refresh('2');
  expect(sandbox.pages.cell(0, 0)).toBe('0:0');
  await sandbox.quiet();
  expect(sandbox.pages.cell(0, 0)).toBe('new 0:0');
  expect(sandbox.asked.length).toBe(2);
});

test('a busy sandbox is not asked again until somebody says so', async () => {
  const sandbox = new Sandbox();
  sandbox.says = () => ({ answer: 1, busy: true });
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  expect(sandbox.pages.standing).toBe('busy');
  sandbox.pages.cell(0, 0);
  await sandbox.quiet();
  expect(sandbox.asked.length).toBe(1);
  sandbox.says = sandbox.page;
  sandbox.pages.refresh('2');
  await sandbox.quiet();
  expect(sandbox.pages.standing).toBe('whole');
});

test('a variable that is gone, or is no table any more', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  for (const problem of ['gone', 'no table'] as const) {
    sandbox.says = () => ({ answer: 1, result: { problem } });
    sandbox.pages.refresh(problem);
    await sandbox.quiet();
    expect(sandbox.pages.standing).toBe(problem);
    expect(sandbox.pages.cell(0, 0)).toBe('0:0');
  }
});

test('a table with another size is shown from the start', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  sandbox.rows = 3;
  sandbox.pages.refresh('2');
  await sandbox.quiet();
  expect(sandbox.pages.rows).toBe(3);
  expect(sandbox.told.filter(change => change.kind === 'size').length).toBe(2);
});

test('a table whose size is another one with each answer is not fetched for ever', async () => {
  const sandbox = new Sandbox();
  sandbox.says = (row, column, at) => {
    sandbox.rows += 1;
    return sandbox.page(row, column, at);
  };
  sandbox.pages.refresh('1');
  for (let i = 0; i < 20; i++) {
    sandbox.pages.cell(i * PAGE_ROWS, 0);
    await sandbox.quiet();
  }
  expect(sandbox.pages.standing).toBe('failed');
  expect(sandbox.asked.length).toBeLessThan(4);
});

test('what the kernel refuses is told', async () => {
  const sandbox = new Sandbox();
  sandbox.says = () => {
    throw new Error('the sandbox could not show its variables');
  };
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  expect(sandbox.pages.standing).toBe('failed');
  expect(sandbox.pages.problem).toContain('could not show');
});

test('an array is cut elsewhere, and answers to what was asked before are dropped', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  sandbox.pages.cell(5000, 0);
  sandbox.pages.cut([7]);
  await sandbox.quiet();
  expect(sandbox.pages.cell(0, 0)).toBe('70:0');
  sandbox.pages.cell(5000, 0);
  await sandbox.quiet();
  expect(sandbox.pages.cell(5000, 0)).toBe('75000:0');
});

test('an array is cut elsewhere before the last cut has come', async () => {
  const sandbox = new Sandbox();
  sandbox.pages.refresh('1');
  await sandbox.quiet();
  sandbox.pages.cut([7]);
  await Promise.resolve(); // it is asked for
  sandbox.pages.cut([8]);
  await sandbox.quiet();
  expect(sandbox.pages.cell(0, 0)).toBe('80:0');
});
