import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
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
    return (panel && this.connections.get(panel)) ?? null;
  }

  private follow(panel: NotebookPanel): void {
    const context = panel.sessionContext;
    const connect = () => void this.connect(panel, context);
    context.kernelChanged.connect(connect);
    context.connectionStatusChanged.connect(connect);
    context.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting') {
        this.disconnect(panel); // its comms are gone with it
      } else if (status === 'idle' && !this.connections.has(panel)) {
        connect();
      }
    });
    panel.disposed.connect(() => this.disconnect(panel));
    connect();
  }

  private async connect(
    panel: NotebookPanel,
    context: ISessionContext
  ): Promise<void> {
    const kernel = context.session?.kernel;
    const known = this.connections.get(panel);
    if (!kernel || kernel.connectionStatus !== 'connected') {
      return;
    }
    if (known && !known.isDisposed && this.kernels.get(panel) === kernel.id) {
      return;
    }
    this.disconnect(panel);
    this.kernels.set(panel, kernel.id);
    const info = await kernel.info;
    const isCurrent =
      context.session?.kernel === kernel &&
      this.kernels.get(panel) === kernel.id;
    if (info.implementation !== IMPLEMENTATION || !isCurrent) {
      this._changed.emit();
      return;
    }
    if (panel.isDisposed || this.connections.has(panel)) {
      return;
    }
    const connection = new Connection(kernel, this.trans);
    connection.changed.connect(() => this._changed.emit());
    this.connections.set(panel, connection);
    this._connected.emit(panel);
    this._changed.emit();
  }

  private disconnect(panel: NotebookPanel): void {
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
