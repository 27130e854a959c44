import { type ISignal, Signal } from '@lumino/signaling';
import type { Answer, Request, Row } from './protocol';

const PAGE = 100;

/** Who is asked for rows: a connection. */
export interface Asked {
  ask(request: Request): Promise<Answer>;
}

/** The rows of cells whose checkpoints are gone. They are asked for when somebody scrolls to them, a page at a time. */
export class OlderRows {
  constructor(private readonly kernel: Asked) {}

  /** Those that are here, newest first. */
  get rows(): Row[] {
    return this._rows;
  }

  /** Emitted when these are others. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether the kernel has more. */
  get hasMore(): boolean {
    return this._rows.length < this.count;
  }

  /** The kernel says how many there are. If that is news, what is here is asked for again. */
  counted(count: number): void {
    if (count !== this.count) {
      this.count = count;
      if (this._rows.length > 0) {
        void this.load(0);
      }
    }
  }

  /** Somebody has scrolled to the end of what is here. */
  async more(): Promise<void> {
    if (this.hasMore) {
      await this.load(this._rows.length);
    }
  }

  private async load(skip: number): Promise<void> {
    const turn = ++this.turn;
    const answer = await this.kernel
      .ask({ do: 'older', skip, count: PAGE })
      .catch(() => null); // the kernel has ended
    if (answer?.result && turn === this.turn) {
      const found = answer.result.rows as Row[];
      this._rows = [...this._rows.slice(0, skip), ...found];
      this._changed.emit();
    }
  }

  private _rows: Row[] = [];
  private count = 0;
  private turn = 0;
  private readonly _changed = new Signal<this, void>(this);
}

/** Rows that are kept and rows that are not, newest first. Named moments are kept, however old. */
export function merged(kept: Row[], older: Row[]): Row[] {
  const rows: Row[] = [];
  let next = 0;
  for (const row of kept) {
    while (next < older.length && older[next].at > row.at) {
      rows.push(older[next++]);
    }
    rows.push(row);
  }
  return [...rows, ...older.slice(next)];
}
