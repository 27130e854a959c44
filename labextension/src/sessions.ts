import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { type ISignal, Signal } from '@lumino/signaling';
import { Connection } from './connection';

/** The name by which our kernel says what it is. */
const IMPLEMENTATION = 'wasm_kernel';

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
      return;
    }
    const isKnown =
      this.kernels.get(panel) === kernel.id &&
      !this.connections.get(panel)?.isDisposed;
    if (isKnown || kernel.connectionStatus !== 'connected') {
      return;
    }
    this.disconnect(panel);
    this.kernels.set(panel, kernel.id);
    const info = await kernel.info;
    const isCurrent =
      context.session?.kernel === kernel &&
      this.kernels.get(panel) === kernel.id;
    const isOurs = info.implementation === IMPLEMENTATION && isCurrent;
    if (isOurs && kernel.handleComms && !this.connections.has(panel)) {
      const connection = new Connection(kernel, this.trans);
      connection.changed.connect(() => this._changed.emit());
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
    this._changed.emit();
  }

  private readonly connections = new Map<NotebookPanel, Connection>();
  private readonly kernels = new Map<NotebookPanel, string>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _connected = new Signal<this, NotebookPanel>(this);
}
