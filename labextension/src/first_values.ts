import { type ISignal, Signal } from '@lumino/signaling';
import type { Connection } from './connection';
import type { FirstValues } from './protocol';
import type { Sessions } from './sessions';

type Values = { [name: string]: FirstValues };

/** The first values of each session's variables, fetched when somebody looks and the sandbox is at rest. */
export class ValuesOfSessions {
  constructor(
    private readonly sessions: Sessions,
    private readonly isSeen: () => boolean
  ) {
    sessions.changed.connect(() => this.look());
  }

  /** Emitted when there are others. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Those of the active notebook, as far as they are known. */
  get current(): Values {
    const connection = this.sessions.connection();
    return (connection && this.known.get(connection)?.values) ?? {};
  }

  /** Fetch them, if they may be others than those that are known. */
  look(): void {
    const connection = this.sessions.connection();
    const state = connection?.state;
    if (!connection || !state?.variables.length || !this.isSeen()) {
      return;
    }
    const moment = `${state.session} ${state.moment}`;
    const known = this.known.get(connection);
    if (known?.moment !== moment) {
      this.known.set(connection, { moment, values: known?.values ?? {} });
      void this.fetch(connection, moment);
    }
  }

  private async fetch(connection: Connection, moment: string): Promise<void> {
    let values: Values | undefined;
    try {
      const answer = await connection.ask({ do: 'values' });
      values = answer.result?.values as Values | undefined;
    } catch {
      values = {}; // the table does without them
    }
    const known = this.known.get(connection);
    if (known?.moment !== moment) {
      return; // others are on their way
    }
    // A busy sandbox gave none: with the next state, when its cell has ended, they are fetched again.
    this.known.set(connection, {
      moment: values ? moment : '',
      values: values ?? known.values
    });
    this._changed.emit();
  }

  private readonly known = new WeakMap<
    Connection,
    { moment: string; values: Values }
  >();
  private readonly _changed = new Signal<this, void>(this);
}
