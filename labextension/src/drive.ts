import { PathExt } from '@jupyterlab/coreutils';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import {
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';
import { type ISignal, Signal } from '@lumino/signaling';
import { bytesOf, contentOf } from './file_content';
import { withFreeName } from './file_names';
import {
  type Entry,
  FileProblem,
  FileRoutes,
  isTaken,
  split
} from './file_routes';

export const DRIVE = 'sandbox';
/** Whoever opens a file in the page loads all of it; a download does not. */
const MOST_OPENED = 100 * 2 ** 20;
/** Lab makes a row for each entry, whether it is in sight or not. */
export const MOST_LISTED = 2000;
const NEW_NOTEBOOK = {
  cells: [],
  metadata: {},
  nbformat: 4,
  nbformat_minor: 5
};

/**
 * The files of sessions, for Lab's file browser, viewers and editors: `sandbox:SESSION/path`. The session is part of the
 * path, so a file that stays open is saved to where it came from, whatever notebook is active by then.
 */
export class SandboxDrive implements Contents.IDrive {
  constructor(
    readonly serverSettings: ServerConnection.ISettings = ServerConnection.makeSettings(),
    private readonly mimeTypeOf: (path: string) => string = () => '',
    private readonly trans: TranslationBundle = nullTranslator.load(
      'wasm_kernel'
    )
  ) {
    this.routes = new FileRoutes(serverSettings, trans);
  }

  readonly name = DRIVE;
  readonly routes: FileRoutes;

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this._fileChanged;
  }

  /** How many entries a folder has, if they are more than its listing held. */
  total(path: string): number | undefined {
    return this.totals.get(path);
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    Signal.clearData(this);
  }

  async get(
    path: string,
    options: Contents.IFetchOptions = {}
  ): Promise<Contents.IModel> {
    const { session, inside } = split(path);
    if (!session) {
      return folder('', []); // which sessions there are is not the panel's business
    }
    const whole = PathExt.join(session, inside);
    const entry = inside ? await this.routes.about(whole) : null;
    if (!entry || entry.kind === 'folder') {
      return options.content === false
        ? { ...folder(whole, []), content: null, format: null }
        : this.list(whole);
    }
    const model = this.model(whole, entry);
    if (options.content === false) {
      return model;
    }
    if (entry.size > MOST_OPENED) {
      throw new FileProblem(
        this.trans.__(
          '%1 is too large to open in the browser. Download it instead.',
          entry.name
        ),
        413
      );
    }
    const blob = await this.routes.read(whole);
    const bytes = new Uint8Array(await blob.arrayBuffer());
    return {
      ...model,
      ...contentOf(bytes, this.trans, options.type, options.format)
    };
  }

  getDownloadUrl(path: string): Promise<string> {
    return Promise.resolve(this.routes.download(path));
  }

  async newUntitled(
    options: Contents.ICreateOptions = {}
  ): Promise<Contents.IModel> {
    const { type } = options;
    const isNotebook = type === 'notebook';
    const ending = isNotebook ? 'ipynb' : (options.ext ?? 'txt');
    const body = isNotebook ? JSON.stringify(NEW_NOTEBOOK) : '';
    const path = await withFreeName(
      type === 'directory'
        ? this.trans.__('New Folder')
        : `untitled.${ending.replace(/^\./, '')}`,
      (stem, number) => `${stem} ${number}`,
      async name => {
        const made = PathExt.join(options.path ?? '', name);
        await (type === 'directory'
          ? this.routes.makeFolder(made)
          : this.routes.write(made, body, false));
        return made;
      },
      isTaken
    );
    return this.told('new', null, path);
  }

  async delete(path: string): Promise<void> {
    await this.routes.remove(path);
    this._fileChanged.emit({
      type: 'delete',
      oldValue: { path },
      newValue: null
    });
  }

  async rename(from: string, to: string): Promise<Contents.IModel> {
    if (split(from).session !== split(to).session) {
      await this.routes.write(to, await this.routes.read(from), false);
      await this.delete(from);
      return this.told('new', null, to);
    }
    await this.routes.bring('move_to', from, to);
    return this.told('rename', from, to);
  }

  async save(
    path: string,
    options: Partial<Contents.IModel> = {}
  ): Promise<Contents.IModel> {
    if (options.type === 'directory') {
      await this.routes.makeFolder(path);
    } else {
      await this.routes.write(path, bytesOf(options), true);
    }
    return this.told('save', null, path);
  }

  async copy(path: string, toFolder: string): Promise<Contents.IModel> {
    const isNear = split(path).session === split(toFolder).session;
    const made = await withFreeName(
      PathExt.basename(path),
      (stem, number) => `${stem}-Copy${number}`,
      async name => {
        const to = PathExt.join(toFolder, name);
        await (isNear
          ? this.routes.bring('copy_to', path, to)
          : this.routes.write(to, await this.routes.read(path), false));
        return to;
      },
      isTaken
    );
    return this.told('new', null, made);
  }

  // There is undo for what cells do; files that a person edits have no checkpoints of their own.

  createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return Promise.resolve({
      id: 'none',
      last_modified: new Date().toISOString()
    });
  }

  listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return Promise.resolve([]);
  }

  restoreCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  deleteCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  /** Tell everybody that a file is new, or another one now. */
  async told(
    type: Contents.IChangedArgs['type'],
    oldPath: string | null,
    path: string
  ): Promise<Contents.IModel> {
    const model = await this.get(path, { content: false });
    this._fileChanged.emit({
      type,
      oldValue: oldPath === null ? null : { path: oldPath },
      newValue: model
    });
    return model;
  }

  private async list(path: string): Promise<Contents.IModel> {
    const { entries, total } = await this.routes.list(path, MOST_LISTED);
    if (total > entries.length) {
      this.totals.set(path, total);
    } else {
      this.totals.delete(path);
    }
    const models = entries.map(entry =>
      this.model(PathExt.join(path, entry.name), entry)
    );
    return folder(path, models);
  }

  private model(path: string, entry: Entry): Contents.IModel {
    const isFolder = (entry.target ?? entry.kind) === 'folder';
    return {
      name: entry.name,
      path,
      type: isFolder
        ? 'directory'
        : entry.name.endsWith('.ipynb')
          ? 'notebook'
          : 'file',
      writable: true,
      created: entry.modified ?? '',
      last_modified: entry.modified ?? '',
      mimetype: isFolder ? '' : this.mimeTypeOf(entry.name),
      size: entry.size,
      // Lab asks before it saves over a file whose hash is another one than when it was opened.
      hash: entry.version,
      hash_algorithm: 'wasm-kernel-version',
      content: null,
      format: null
    };
  }

  private readonly _fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  private readonly totals = new Map<string, number>();
  private _disposed = false;
}

function folder(path: string, content: Contents.IModel[]): Contents.IModel {
  return {
    name: PathExt.basename(path),
    path,
    type: 'directory',
    writable: true,
    created: '',
    last_modified: '',
    mimetype: '',
    content,
    format: 'json'
  };
}
