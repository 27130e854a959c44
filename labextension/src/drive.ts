import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { bytesOf, contentOf } from './file_content';

export const DRIVE = 'sandbox';
/** Whoever opens a file in the page loads all of it; a download does not. */
const MOST_SHOWN = 100 * 2 ** 20;
const PAGE = 10_000;

interface Entry {
  name: string;
  key: string;
  kind: 'file' | 'folder' | 'link';
  size: number;
  modified: string | null;
}

interface Listing {
  total: number;
  entries: Entry[];
}

/** What the server says no with; the text is for the person. */
export class FileProblem extends Error {}

/**
 * The files of sessions, for Lab's file browser, viewers and editors: `sandbox:SESSION/path`. The session is part of the
 * path, so a file that stays open is saved to where it came from, whatever notebook is active by then.
 */
export class SandboxDrive implements Contents.IDrive {
  constructor(
    readonly serverSettings: ServerConnection.ISettings = ServerConnection.makeSettings()
  ) {}

  readonly name = DRIVE;

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this._fileChanged;
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
    if (!inside) {
      return this.list(session, inside, options.content !== false);
    }
    const entry = await this.entry(session, inside);
    if (entry.kind === 'folder') {
      return this.list(session, inside, options.content !== false);
    }
    const model = file(session, inside, entry);
    if (options.content === false) {
      return model;
    }
    if (entry.size > MOST_SHOWN) {
      throw new FileProblem(
        `${entry.name} is too large to open in the browser. Download it instead.`
      );
    }
    const answer = await this.request('GET', this.url(session, inside));
    const bytes = new Uint8Array(await answer.arrayBuffer());
    return { ...model, ...contentOf(bytes, options.type, options.format) };
  }

  getDownloadUrl(path: string): Promise<string> {
    const { session, inside } = split(path);
    return Promise.resolve(this.url(session, inside));
  }

  async newUntitled(
    options: Contents.ICreateOptions = {}
  ): Promise<Contents.IModel> {
    const { session, inside } = split(options.path ?? '');
    const isFolder = options.type === 'directory';
    const stem = isFolder ? 'New Folder' : 'untitled';
    const ending = isFolder
      ? ''
      : options.type === 'notebook'
        ? '.ipynb'
        : (options.ext ?? '.txt');
    const name = await this.freeName(session, inside, stem, ending);
    const path = PathExt.join(inside, name);
    if (isFolder) {
      await this.request('POST', this.url(session, path, { mkdir: '1' }));
    } else {
      const notebook = {
        cells: [],
        metadata: {},
        nbformat: 4,
        nbformat_minor: 5
      };
      const body = options.type === 'notebook' ? JSON.stringify(notebook) : '';
      await this.request('PUT', this.url(session, path), body);
    }
    return this.told('new', null, PathExt.join(session, path));
  }

  async delete(path: string): Promise<void> {
    const { session, inside } = split(path);
    await this.request('DELETE', this.url(session, inside, { recursive: '1' }));
    this._fileChanged.emit({
      type: 'delete',
      oldValue: { path },
      newValue: null
    });
  }

  async rename(from: string, to: string): Promise<Contents.IModel> {
    const old = split(from);
    const now = split(to);
    if (old.session !== now.session) {
      return this.carryOver(from, to);
    }
    const target = keyOf(now.inside);
    await this.request(
      'POST',
      this.url(old.session, old.inside, { move_to: target })
    );
    return this.told('rename', from, to);
  }

  async save(
    path: string,
    options: Partial<Contents.IModel> = {}
  ): Promise<Contents.IModel> {
    const { session, inside } = split(path);
    if (options.type === 'directory') {
      await this.request('POST', this.url(session, inside, { mkdir: '1' }));
    } else {
      await this.request(
        'PUT',
        this.url(session, inside, { overwrite: '1' }),
        bytesOf(options)
      );
    }
    return this.told('save', null, path);
  }

  async copy(path: string, toFolder: string): Promise<Contents.IModel> {
    const target = split(toFolder);
    const ending = PathExt.extname(path);
    const stem = PathExt.basename(path, ending);
    const name = await this.freeName(
      target.session,
      target.inside,
      stem,
      ending
    );
    const to = PathExt.join(toFolder, name);
    await this.copyBytes(path, to);
    return this.told('new', null, to);
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

  /** Send a file of any size, with word of how far it is; nothing is sent that does not fit. */
  upload(
    path: string,
    file: File,
    onProgress: (share: number) => void
  ): Promise<Contents.IModel> {
    const { session, inside } = split(path);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open('PUT', this.url(session, inside, { overwrite: '1' }));
      for (const [name, value] of Object.entries(this.headers())) {
        request.setRequestHeader(name, value);
      }
      request.withCredentials = true;
      request.upload.onprogress = event =>
        onProgress(event.total ? event.loaded / event.total : 0);
      request.onerror = () =>
        reject(new FileProblem('The upload was cut off. Try again.'));
      request.onload = () => {
        if (request.status < 300) {
          resolve(this.told('save', null, path));
        } else {
          reject(
            new FileProblem(problem(request.responseText, request.status))
          );
        }
      };
      request.send(file);
    });
  }

  /** How much room a session has left, in bytes, and how large one file may be. */
  async room(session: string): Promise<{ free: number; maxFile: number }> {
    const answer = await this.request('GET', this.listUrl(session, '', 1));
    const { quota } = (await answer.json()) as {
      quota: { used: number | null; limit: number; max_file: number };
    };
    return {
      free: quota.used === null ? 0 : quota.limit - quota.used,
      maxFile: quota.max_file
    };
  }

  private async list(
    session: string,
    inside: string,
    withContent: boolean
  ): Promise<Contents.IModel> {
    const path = PathExt.join(session, inside);
    if (!withContent) {
      return { ...folder(path, []), content: null, format: null };
    }
    const answer = await this.request(
      'GET',
      this.listUrl(session, inside, PAGE)
    );
    const listing = (await answer.json()) as Listing;
    const models = listing.entries.map(entry => {
      const own = PathExt.join(inside, entry.name);
      this.keys.set(`${session}/${own}`, entry.key);
      return file(session, own, entry);
    });
    return folder(path, models);
  }

  /** What a folder's listing says of something in it. */
  private async entry(session: string, inside: string): Promise<Entry> {
    const name = PathExt.basename(inside);
    const answer = await this.request(
      'GET',
      this.listUrl(session, PathExt.dirname(inside), PAGE)
    );
    const { entries } = (await answer.json()) as Listing;
    const found = entries.find(entry => entry.name === name);
    if (!found) {
      throw new FileProblem(`There is no file ${inside}.`);
    }
    this.keys.set(`${session}/${inside}`, found.key);
    return found;
  }

  private async freeName(
    session: string,
    inside: string,
    stem: string,
    ending: string
  ): Promise<string> {
    const answer = await this.request(
      'GET',
      this.listUrl(session, inside, PAGE)
    );
    const { entries } = (await answer.json()) as Listing;
    const taken = new Set(entries.map(entry => entry.name));
    for (let number = 0; ; number++) {
      const name = `${stem}${number ? ` ${number}` : ''}${ending}`;
      if (!taken.has(name)) {
        return name;
      }
    }
  }

  private async carryOver(from: string, to: string): Promise<Contents.IModel> {
    await this.copyBytes(from, to);
    await this.delete(from);
    return this.told('new', null, to);
  }

  private async copyBytes(from: string, to: string): Promise<void> {
    const old = split(from);
    const now = split(to);
    const answer = await this.request('GET', this.url(old.session, old.inside));
    await this.request(
      'PUT',
      this.url(now.session, now.inside),
      await answer.blob()
    );
  }

  private async told(
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

  private url(
    session: string,
    inside: string,
    query: { [name: string]: string } = {}
  ): string {
    const key = this.keys.get(`${session}/${inside}`) ?? keyOf(inside);
    const url = URLExt.join(
      this.serverSettings.baseUrl,
      'wasm-kernel/sessions',
      encodeURIComponent(session),
      'files',
      key
    );
    return url + URLExt.objectToQueryString(query);
  }

  private listUrl(session: string, inside: string, limit: number): string {
    const path = inside
      ? decodeURIComponent(
          this.keys.get(`${session}/${inside}`) ?? keyOf(inside)
        )
      : '';
    const url = URLExt.join(
      this.serverSettings.baseUrl,
      'wasm-kernel/sessions',
      encodeURIComponent(session),
      'list'
    );
    return url + URLExt.objectToQueryString({ path, limit: String(limit) });
  }

  private headers(): { [name: string]: string } {
    const token = this.serverSettings.token;
    const cookie = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie);
    return {
      ...(token ? { Authorization: `token ${token}` } : {}),
      ...(cookie ? { 'X-XSRFToken': cookie[1] } : {})
    };
  }

  private async request(
    method: string,
    url: string,
    body?: BodyInit
  ): Promise<Response> {
    const answer = await ServerConnection.makeRequest(
      url,
      { method, body, cache: 'no-store' },
      this.serverSettings
    );
    if (!answer.ok) {
      throw new FileProblem(problem(await answer.text(), answer.status));
    }
    return answer;
  }

  /** A path to the key by which the server knows it: names may hold bytes that are no text. */
  private readonly keys = new Map<string, string>();
  private readonly _fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  private _disposed = false;
}

/** The session and what is below it. */
export function split(path: string): { session: string; inside: string } {
  const plain = path.replace(/^\/+|\/+$/g, '');
  const slash = plain.indexOf('/');
  return slash < 0
    ? { session: plain, inside: '' }
    : { session: plain.slice(0, slash), inside: plain.slice(slash + 1) };
}

function keyOf(inside: string): string {
  return inside.split('/').map(encodeURIComponent).join('/');
}

function problem(body: string, status: number): string {
  try {
    const found = JSON.parse(body) as { detail?: string; message?: string };
    return found.detail ?? found.message ?? `The server answered ${status}.`;
  } catch {
    return `The server answered ${status}.`;
  }
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

function file(session: string, inside: string, entry: Entry): Contents.IModel {
  const isFolder = entry.kind === 'folder';
  return {
    name: entry.name,
    path: PathExt.join(session, inside),
    type: isFolder
      ? 'directory'
      : entry.name.endsWith('.ipynb')
        ? 'notebook'
        : 'file',
    writable: true,
    created: entry.modified ?? '',
    last_modified: entry.modified ?? '',
    mimetype: '',
    size: entry.size,
    content: null,
    format: null
  };
}
