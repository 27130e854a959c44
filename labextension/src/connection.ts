import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import { OlderRows } from './older_rows';
import {
  type Answer,
  type FromKernel,
  type Hello,
  type Notice,
  type Progress,
  type Request,
  type State,
  TARGET,
  VERSION
} from './protocol';

/** The kernel, or the person, says no; the text is for the person. */
export class Refused extends Error {}

/** The side panel's comm to one kernel: requests and their answers, and the session's state. */
export class Connection implements IDisposable {
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly trans: TranslationBundle
  ) {
    this.older.changed.connect(() => this._changed.emit());
    this.comm = kernel.createComm(TARGET);
    this.comm.onMsg = message => this.receive(message);
    this.comm.onClose = () => this.dispose();
    this.comm.open({ version: VERSION });
    void this.ask({ do: 'look' }).catch(() => undefined); // opens the session
  }

  /** The session as the kernel last told it. */
  get state(): State | null {
    return this._state;
  }

  /** The rows that the state only counts. */
  readonly older = new OlderRows(this);

  /** Emitted with each new state. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What the person should know. */
  get noticed(): ISignal<this, Notice> {
    return this._noticed;
  }

  /** How far the image is that the kernel builds. */
  get progressed(): ISignal<this, Progress> {
    return this._progressed;
  }

  /** How the kernel introduced itself, if it speaks another version than ours; nothing else is understood then. */
  get stranger(): Hello | null {
    return this._stranger;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    for (const waiting of this.waiting.values()) {
      waiting.reject(new Refused(this.trans.__('The kernel has ended.')));
    }
    this.waiting.clear();
    if (!this.comm.isDisposed) {
      try {
        this.comm.close(); // else the kernel goes on telling it of each cell
      } catch {
        this.comm.dispose(); // the kernel is dead
      }
    }
    Signal.clearData(this);
  }

  /** Ask the kernel for something; rejects with what it says when it refuses. */
  async ask(request: Request): Promise<Answer> {
    if (this._disposed || this.kernel.isDisposed) {
      throw new Refused(this.trans.__('The kernel has ended.'));
    }
    if (this.kernel.connectionStatus !== 'connected') {
      // Lab would send it later, when nobody expects it.
      throw new Refused(
        this.trans.__('There is no connection to the kernel now.')
      );
    }
    const number = ++this.last;
    const answer = new Promise<Answer>((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
    });
    this.comm.send({ request: number, ...request });
    return answer;
  }

  private receive(message: KernelMessage.ICommMsgMsg): void {
    const data = message.content.data as unknown as FromKernel;
    if ('hello' in data) {
      this._stranger = data.hello.version === VERSION ? null : data.hello;
      this._changed.emit();
    } else if ('answer' in data) {
      this.answered(data);
    } else if (this._stranger) {
      return;
    } else if ('state' in data) {
      this._state = data.state;
      this.older.counted(data.state.older);
      this._changed.emit();
    } else if ('notice' in data) {
      this._noticed.emit(data.notice);
    } else if ('progress' in data) {
      this._progressed.emit(data.progress);
    }
  }

  private answered(data: Answer): void {
    const waiting = this.waiting.get(data.answer);
    this.waiting.delete(data.answer);
    if (data.error !== undefined) {
      waiting?.reject(new Refused(data.error));
    } else {
      waiting?.resolve(data);
    }
  }

  private readonly comm: Kernel.IComm;
  private readonly waiting = new Map<
    number,
    { resolve: (answer: Answer) => void; reject: (reason: Refused) => void }
  >();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _noticed = new Signal<this, Notice>(this);
  private readonly _progressed = new Signal<this, Progress>(this);
  private _state: State | null = null;
  private _stranger: Hello | null = null;
  private _disposed = false;
  private last = 0;
}
