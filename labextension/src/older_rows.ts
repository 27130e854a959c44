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

  /** The kernel says how many there are. If that is news, those that are new are asked for. */
  counted(count: number): void {
    if (count !== this.count) {
      this.count = count;
      if (this._rows.length > 0) {
        void this.refresh();
      }
    }
  }

  /** Somebody has scrolled to the end of what is here. */
  async more(): Promise<void> {
    if (this.hasMore) {
      const found = await this.load(this._rows.length, PAGE);
      this.are(found && [...this._rows, ...found]);
    }
  }

  /** Put those that are new before the others, which stay: somebody may be looking at them. */
  private async refresh(): Promise<void> {
    const added = this.count - this.counts;
    const isFew = added > 0 && added < PAGE;
    const found = await this.load(0, isFew ? added + 1 : PAGE);
    const first = JSON.stringify(this._rows[0]);
    const goesOn = isFew && JSON.stringify(found?.[added]) === first;
    this.are(found && (goesOn ? [...found, ...this._rows.slice(1)] : found));
  }

  /** Some rows; null if others were asked for meanwhile, or if the kernel has ended. */
  private async load(skip: number, count: number): Promise<Row[] | null> {
    const turn = ++this.turn;
    const answer = await this.kernel
      .ask({ do: 'older', skip, count })
      .catch(() => null);
    return turn === this.turn
      ? ((answer?.result?.rows as Row[]) ?? null)
      : null;
  }

  private are(rows: Row[] | null): void {
    if (rows) {
      this._rows = rows;
      this.counts = this.count;
      this._changed.emit();
    }
  }

  private _rows: Row[] = [];
  private count = 0;
  private counts = 0; // how many there were when these came
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
