/** A table of which only pages are here: those that somebody looks at, fetched one after the other. */

import {
  type Answer,
  type Cell,
  type Page,
  PAGE_COLUMNS,
  PAGE_ROWS
} from './protocol';

/** Whether what is shown is what there is, and if not, why. */
export type Standing =
  | 'loading'
  | 'whole'
  | 'busy' // a cell runs
  | 'gone' // there is no such variable any more
  | 'no table' // it is something else now
  | 'failed';

/** What has changed for whoever shows it. */
export type Change =
  { kind: 'size' | 'standing' } | { kind: 'page'; page: Page };

type Key = `${number}/${number}`;

const MOST_PAGES = 60; // kept
const MOST_WANTED = 6; // what was wanted before is out of sight

export class Pages {
  constructor(
    private readonly ask: (
      row: number,
      column: number,
      at: string
    ) => Promise<Answer>,
    private readonly tell: (change: Change) => void
  ) {}

  /** What the table is like: the newest page. */
  get newest(): Page | null {
    return this._newest;
  }

  get standing(): Standing {
    return this._standing;
  }

  /** Why it failed, for a person. */
  get problem(): string {
    return this._problem;
  }

  get rows(): number {
    return this._newest?.rows ?? 0;
  }

  get columns(): number {
    return this._newest?.columns ?? 0;
  }

  /** What is in the body; null if it is not here yet. */
  cell(row: number, column: number): Cell | null {
    const page = this.at(row, column);
    return page?.cells[column - page.column]?.[row - page.row] ?? null;
  }

  /** A row's label. */
  label(row: number, level: number): Cell | null {
    const page = this.inRow(row);
    return page?.labels[level]?.[row - page.row] ?? null;
  }

  /** A column's name and type. */
  heading(column: number): { name: string; type: string } | null {
    const page = this.inColumn(column);
    const at = column - (page?.column ?? 0);
    return page
      ? { name: page.names[at] ?? '', type: page.types[at] ?? '' }
      : null;
  }

  /** Fetch what is looked at anew: the variable may have changed. `moment` is told apart from the last one. */
  refresh(moment: string): void {
    this.moment = moment;
    this.stopped = false;
    this.want(this.last);
  }

  /** Cut an array of more than two dimensions elsewhere. */
  cut(at: number[]): void {
    this.position = at.join(',');
    this.epoch += 1;
    this.pages.clear();
    this.stopped = false;
    this.want('0/0');
    this.tell({ kind: 'size' });
  }

  private at(row: number, column: number): Page | null {
    const key: Key = `${Math.floor(row / PAGE_ROWS)}/${Math.floor(column / PAGE_COLUMNS)}`;
    const found = this.pages.get(key);
    if (!found || found.moment !== this.moment) {
      this.want(key);
    }
    this.last = key;
    if (found) {
      this.pages.delete(key); // the least recently used one is the first
      this.pages.set(key, found);
    }
    return found?.page ?? null;
  }

  /** A page that has a row; those beside it have the same labels. */
  private inRow(row: number): Page | null {
    for (const { page } of this.pages.values()) {
      if (row >= page.row && row < page.row + (page.labels[0]?.length ?? 0)) {
        return page;
      }
    }
    return null;
  }

  private inColumn(column: number): Page | null {
    for (const { page } of this.pages.values()) {
      if (column >= page.column && column < page.column + page.names.length) {
        return page;
      }
    }
    return null;
  }

  private want(key: Key): void {
    if (this.stopped || this.wanted.at(-1) === key || this.asked === key) {
      return;
    }
    this.wanted = [...this.wanted.filter(other => other !== key), key].slice(
      -MOST_WANTED
    );
    if (this.asked === null) {
      this.asked = '' as Key;
      void Promise.resolve().then(() => this.fetch());
    }
  }

  private async fetch(): Promise<void> {
    for (let key = this.wanted.pop(); key; key = this.wanted.pop()) {
      this.asked = key;
      const [row, column] = key.split('/').map(Number);
      const { moment, epoch } = this;
      try {
        const answer = await this.ask(
          row * PAGE_ROWS,
          column * PAGE_COLUMNS,
          this.position
        );
        if (epoch === this.epoch) {
          this.answered(key, moment, answer);
        } else if (this.wanted.length === 0) {
          this.wanted.push('0/0'); // it was cut elsewhere meanwhile
        }
      } catch (error) {
        this.stop('failed', error instanceof Error ? error.message : '');
      }
    }
    this.asked = null;
  }

  private answered(key: Key, moment: string, answer: Answer): void {
    const result = (answer.result ?? {}) as { problem?: string };
    if (answer.busy) {
      this.stop('busy');
    } else if (result.problem === 'gone') {
      this.stop('gone');
    } else if (result.problem) {
      this.stop('no table');
    } else {
      this.arrived(key, moment, result as unknown as Page);
    }
  }

  private arrived(key: Key, moment: string, page: Page): void {
    const other =
      !this._newest ||
      page.rows !== this._newest.rows ||
      page.columns !== this._newest.columns ||
      page.levels.length !== this._newest.levels.length ||
      page.kind !== this._newest.kind;
    if (other && this.sized === moment && this._newest) {
      // Between two cells a table stays as it is; one that does not would be fetched for ever.
      this.stop('failed', '');
      return;
    }
    if (other) {
      this.pages.clear();
      this.sized = moment;
    }
    this._newest = page;
    this.pages.set(key, { page, moment });
    for (const oldest of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) {
        break;
      }
      this.pages.delete(oldest);
    }
    this.stand('whole');
    this.tell(other ? { kind: 'size' } : { kind: 'page', page });
  }

  private stop(standing: Standing, problem = ''): void {
    this.stopped = true;
    this.wanted = [];
    this._problem = problem;
    this.stand(standing);
  }

  private stand(standing: Standing): void {
    if (this._standing !== standing) {
      this._standing = standing;
      this.tell({ kind: 'standing' });
    }
  }

  private readonly pages = new Map<Key, { page: Page; moment: string }>();
  private _newest: Page | null = null;
  private _standing: Standing = 'loading';
  private _problem = '';
  private wanted: Key[] = [];
  private asked: Key | null = null;
  private last: Key = '0/0';
  private moment = '';
  private sized: string | null = null; // the moment at which the table got its size
  private epoch = 0;
  private position = '';
  private stopped = false;
}
