/** The server extension's routes for a session's files. A path here begins with the session. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Keys, shownNames } from './file_names';

/** What a listing says of something; `name` is the one to show. */
export interface Entry {
  name: string;
  key: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  /** What is behind a link. */
  target?: string;
  size: number;
  modified: string | null;
  /** Another one when it was written. */
  version: string;
}

export interface Room {
  free: number;
  maxFile: number;
}

/** What went wrong, for the person; with the status, because Lab looks for it in `response`. */
export class FileProblem extends Error {
  constructor(
    message: string,
    status: number,
    readonly response = { status }
  ) {
    super(message);
  }
}

export class FileRoutes {
  constructor(
    readonly settings: ServerConnection.ISettings,
    private readonly trans: TranslationBundle
  ) {}

  /** A folder's first entries, and how many there are. */
  async list(
    path: string,
    limit: number
  ): Promise<{ entries: Entry[]; total: number }> {
    const { session, inside } = split(path);
    const folder = inside
      ? `path=${this.keys.of(path).slice(session.length + 1)}&`
      : '';
    const answer = await this.request(
      'GET',
      `${this.session(session)}/list?${folder}limit=${limit}&quota=0&links=1`
    );
    const found = (await answer.json()) as { entries: Entry[]; total: number };
    const names = shownNames(found.entries.map(entry => entry.name));
    const entries = found.entries.map((entry, index) => {
      const name = names[index];
      this.keys.learn(`${path}/${name}`, entry.name, `${session}/${entry.key}`);
      return { ...entry, name };
    });
    return { entries, total: found.total };
  }

  /** What is there, links followed. */
  async about(path: string): Promise<Entry> {
    const answer = await this.request('GET', `${this.file(path)}?about=1`);
    const name = path.slice(path.lastIndexOf('/') + 1);
    return { ...((await answer.json()) as Entry), name };
  }

  async read(path: string): Promise<Blob> {
    return (await this.request('GET', this.file(path))).blob();
  }

  async write(path: string, body: BodyInit, overwrite: boolean): Promise<void> {
    const query = overwrite ? '?overwrite=1' : '';
    await this.request('PUT', this.file(path) + query, body);
  }

  async makeFolder(path: string): Promise<void> {
    await this.request('POST', `${this.file(path)}?mkdir=1`);
  }

  async remove(path: string): Promise<void> {
    await this.request('DELETE', `${this.file(path)}?recursive=1`);
  }

  /** Move or copy within a session. */
  async bring(
    how: 'move_to' | 'copy_to',
    from: string,
    to: string
  ): Promise<void> {
    const key = this.keys.of(to).slice(split(to).session.length + 1);
    await this.request('POST', `${this.file(from)}?${how}=${key}`);
  }

  /** How much room a session has left, in bytes, and how large one file may be. */
  async room(session: string): Promise<Room> {
    const url = `${this.session(session)}/list?limit=0`;
    const { quota } = (await (await this.request('GET', url)).json()) as {
      quota: { used: number | null; limit: number; max_file: number };
    };
    return {
      free: quota.used === null ? 0 : Math.max(0, quota.limit - quota.used),
      maxFile: quota.max_file
    };
  }

  /** Send a file of any size, with word of how far it is. */
  upload(
    path: string,
    file: Blob,
    overwrite: boolean,
    onProgress: (sent: number) => void,
    signal: AbortSignal
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      const query = overwrite ? '?overwrite=1' : '';
      request.open('PUT', this.file(path) + query);
      for (const [name, value] of Object.entries(this.headers())) {
        request.setRequestHeader(name, value);
      }
      request.withCredentials = true;
      signal.addEventListener('abort', () => request.abort(), { once: true });
      request.upload.onprogress = event => onProgress(event.loaded);
      request.onabort = () => reject(new FileProblem('Cancelled.', 0));
      request.onerror = () =>
        reject(
          new FileProblem(
            this.trans.__('The upload was cut off. Try again.'),
            0
          )
        );
      request.onload = () => {
        const { status } = request;
        if (status < 300) {
          resolve();
        } else {
          reject(
            new FileProblem(
              problem(request.responseText, status, this.trans),
              status
            )
          );
        }
      };
      request.send(file);
    });
  }

  /** Where a browser downloads a file, or a folder as a zip. */
  download(path: string, asZip = false): string {
    const { session } = split(path);
    const xsrf = this.xsrf();
    const token = xsrf ? `_xsrf=${xsrf}` : '';
    if (!asZip) {
      return `${this.file(path)}${token && '?'}${token}`;
    }
    const key = this.keys.of(path).slice(session.length + 1);
    return `${this.session(session)}/archive?path=${key}${token && '&'}${token}`;
  }

  private session(session: string): string {
    return URLExt.join(
      this.settings.baseUrl,
      'wasm-kernel/sessions',
      encodeURIComponent(session)
    );
  }

  private file(path: string): string {
    const { session } = split(path);
    const key = this.keys.of(path).slice(session.length + 1);
    return `${this.session(session)}/files/${key}`;
  }

  private xsrf(): string {
    return /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1] ?? '';
  }

  private headers(): { [name: string]: string } {
    const { token } = this.settings;
    const xsrf = this.xsrf();
    return {
      ...(token ? { Authorization: `token ${token}` } : {}),
      ...(xsrf ? { 'X-XSRFToken': xsrf } : {})
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
      this.settings
    );
    if (!answer.ok) {
      const { status } = answer;
      const said = problem(await answer.text(), status, this.trans);
      throw new FileProblem(said, status);
    }
    return answer;
  }

  private readonly keys = new Keys();
}

/** The session and what is below it. */
export function split(path: string): { session: string; inside: string } {
  const plain = path.replace(/^\/+|\/+$/g, '');
  const slash = plain.indexOf('/');
  return slash < 0
    ? { session: plain, inside: '' }
    : { session: plain.slice(0, slash), inside: plain.slice(slash + 1) };
}

/** Whether something is already there under that name. */
export function isTaken(error: unknown): boolean {
  return error instanceof FileProblem && error.response.status === 409;
}

/** Whether there is nothing. */
export function isMissing(error: unknown): boolean {
  return error instanceof FileProblem && error.response.status === 404;
}

function problem(
  body: string,
  status: number,
  trans: TranslationBundle
): string {
  const otherwise = trans.__('The server answered %1.', status);
  try {
    const found = JSON.parse(body) as { detail?: string; message?: string };
    return found.detail ?? found.message ?? otherwise;
  } catch {
    return otherwise;
  }
}
