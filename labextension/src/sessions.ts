import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { type ISignal, Signal } from '@lumino/signaling';
import { Connection } from './connection';

/** The name by which our kernel says what it is. */
const IMPLEMENTATION = 'wasm_kernel';

/** Whether a kernel is ours, was ours and has ended, is starting, or is something else. */
export type Standing = 'ours' | 'ended' | 'starting' | 'other';

/** Which notebooks have our kernel, and the connection to each. */
export class Sessions {
  constructor(
    private readonly tracker: INotebookTracker,
    private readonly trans: TranslationBundle
  ) {
    tracker.widgetAdded.connect((_, panel) => this.follow(panel));
    tracker.forEach(panel => this.follow(panel));
    tracker.currentChanged.connect(() => this._changed.emit());
    // The page opens others when it is loaded anew, and a kernel tells all that it knows of each cell.
    window.addEventListener('pagehide', () => {
      this.connections.forEach(connection => connection.dispose());
    });
  }

  /** Emitted when another notebook is active, or when a session's state has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with each notebook that gets a connection, before anything was said on it. */
  get connected(): ISignal<this, NotebookPanel> {
    return this._connected;
  }

  /** The active notebook. */
  get notebook(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  /** The connection of the active notebook, or of a given one. */
  connection(panel: NotebookPanel | null = this.notebook): Connection | null {
    return (panel && (this.connections.get(panel) ?? this.lent(panel))) ?? null;
  }

  /** That of another notebook with the same kernel: Lab lets one of them speak to it on comms. */
  private lent(panel: NotebookPanel): Connection | null {
    const kernel = panel.sessionContext.session?.kernel;
    for (const [other, connection] of this.connections) {
      if (kernel && this.kernels.get(other) === kernel.id) {
        return connection;
      }
    }
    return null;
  }

  /** How things stand with the active notebook's kernel. */
  get standing(): Standing {
    const panel = this.notebook;
    if (!panel) {
      return 'other';
    }
    if (this.connection(panel)) {
      return 'ours';
    }
    if (this.asking.has(panel)) {
      return 'starting';
    }
    const isGone =
      !panel.sessionContext.session?.kernel || this.died.has(panel);
    return isGone && this.folders.has(panel) ? 'ended' : 'other';
  }

  /** The session whose files are those of the active notebook, also when its kernel has ended; empty if there is none. */
  get folder(): string {
    const panel = this.notebook;
    const session = this.connection(panel)?.state?.session;
    const isKept = panel && this.standing !== 'other';
    return session ?? (isKept ? (this.folders.get(panel) ?? '') : '');
  }

  private follow(panel: NotebookPanel): void {
    const context = panel.sessionContext;
    const connect = () => void this.connect(panel, context);
    const connectionChanged = (
      _: ISessionContext,
      status: Kernel.ConnectionStatus
    ) => {
      if (status === 'connected') {
        this.disconnect(panel); // the kernel may have restarted unnoticed, and knows nothing of the comm
        connect();
      }
    };
    const statusChanged = (_: ISessionContext, status: Kernel.Status) => {
      if (status === 'restarting' || status === 'autorestarting') {
        this.disconnect(panel); // its comms are gone with it
        this.asking.add(panel);
        this._changed.emit();
      } else if (status === 'dead') {
        this.disconnect(panel);
        this.asking.delete(panel);
        this.died.add(panel);
        this._changed.emit();
      } else if (status === 'idle') {
        connect();
      }
    };
    context.kernelChanged.connect(connect);
    context.connectionStatusChanged.connect(connectionChanged);
    context.statusChanged.connect(statusChanged);
    panel.disposed.connect(() => {
      // Another view of the notebook may go on with the same context.
      context.kernelChanged.disconnect(connect);
      context.connectionStatusChanged.disconnect(connectionChanged);
      context.statusChanged.disconnect(statusChanged);
      this.disconnect(panel);
    });
    connect();
  }

  private async connect(
    panel: NotebookPanel,
    context: ISessionContext
  ): Promise<void> {
    const kernel = context.session?.kernel;
    if (!kernel) {
      this.disconnect(panel); // it was shut down
      this.asking.delete(panel);
      this._changed.emit();
      return;
    }
    const isKnown =
      this.kernels.get(panel) === kernel.id &&
      !this.connections.get(panel)?.isDisposed;
    if (isKnown) {
      return;
    }
    if (kernel.connectionStatus !== 'connected') {
      this.asking.add(panel);
      this._changed.emit();
      return;
    }
    this.disconnect(panel);
    this.kernels.set(panel, kernel.id);
    this.died.delete(panel);
    this.asking.add(panel);
    this._changed.emit();
    const info = await kernel.info.catch(() => null); // it has ended before it said anything
    const isCurrent =
      context.session?.kernel === kernel &&
      this.kernels.get(panel) === kernel.id;
    if (isCurrent) {
      this.asking.delete(panel);
    }
    const isOurs = info?.implementation === IMPLEMENTATION && isCurrent;
    if (isCurrent && !isOurs) {
      this.folders.delete(panel);
    }
    if (isOurs && kernel.handleComms && !this.connections.has(panel)) {
      const connection = new Connection(kernel, this.trans);
      connection.changed.connect(() => {
        if (connection.state) {
          this.folders.set(panel, connection.state.session);
        }
        this._changed.emit();
      });
      this.connections.set(panel, connection);
      this._connected.emit(panel);
    }
    this._changed.emit();
  }

  private disconnect(panel: NotebookPanel): void {
    if (!this.kernels.has(panel)) {
      return;
    }
    this.connections.get(panel)?.dispose();
    this.connections.delete(panel);
    this.kernels.delete(panel);
    this.asking.delete(panel);
    this._changed.emit();
  }

  private readonly connections = new Map<NotebookPanel, Connection>();
  private readonly kernels = new Map<NotebookPanel, string>();
  /** Whose kernels have not said yet which they are, and whose have died. */
  private readonly asking = new WeakSet<NotebookPanel>();
  private readonly died = new WeakSet<NotebookPanel>();
  /** The session that each notebook had last. */
  private readonly folders = new WeakMap<NotebookPanel, string>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _connected = new Signal<this, NotebookPanel>(this);
}
