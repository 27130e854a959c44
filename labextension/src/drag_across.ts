/** Files dragged between Lab's own browsers and ours are copied: Lab itself moves them within one drive only. */

import { Dialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { FileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Drag } from '@lumino/dragdrop';
import { DRIVE, type SandboxDrive } from './drive';
import { contentOf } from './file_content';
import { isTaken } from './file_routes';
import type { Uploads } from './uploads';

const DRAGGED = 'application/x-jupyter-icontents';
const LISTING = '.jp-DirListing-content';
const ITEM = '.jp-DirListing-item';
const DROP_TARGET = 'jp-mod-dropTarget';

/** Where something is dropped: a browser, and the folder in it. */
interface Place {
  browser: FileBrowser;
  folder: string;
  /** What shows that it can be dropped there. */
  node: Element | null;
}

export class DragAcross {
  constructor(
    private readonly ours: FileBrowser,
    private readonly factory: IFileBrowserFactory,
    private readonly contents: Contents.IManager,
    private readonly drive: SandboxDrive,
    private readonly uploads: Uploads,
    private readonly trans: TranslationBundle
  ) {
    // Before the list itself, which takes what is dropped on its rows only, and cannot copy from another drive.
    for (const type of ['lm-dragenter', 'lm-dragover', 'lm-drop']) {
      document.addEventListener(type, this.handle, true);
      ours.disposed.connect(() =>
        document.removeEventListener(type, this.handle, true)
      );
    }
  }

  private readonly handle = (found: Event): void => {
    const event = found as unknown as Drag.Event;
    const paths = event.mimeData.getData(DRAGGED) as string[] | undefined;
    this.marked?.classList.remove(DROP_TARGET);
    this.marked = null; // Lab marks rows itself, the same ones
    const place = paths ? this.place(event.target as Element | null) : null;
    if (!paths || !place) {
      return;
    }
    const intoOurs = place.browser === this.ours;
    const foreign = paths.filter(
      path => (this.contents.driveName(path) === DRIVE) !== intoOurs
    );
    if (foreign.length === 0) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    if (event.type === 'lm-drop') {
      void this.copyAll(foreign, place);
    } else {
      this.marked = place.node;
      place.node?.classList.add(DROP_TARGET);
    }
  };

  private place(target: Element | null): Place | null {
    const list = target?.closest?.(LISTING);
    const browser =
      list &&
      (this.ours.node.contains(list)
        ? this.ours
        : this.factory.tracker.find(each => each.node.contains(list)));
    if (!browser || (browser === this.ours && !localPath(browser))) {
      return null;
    }
    const node = target?.closest(`${ITEM}[data-isdir="true"]`) ?? null;
    const name = node?.querySelector('.jp-DirListing-itemText')?.textContent;
    const folder = PathExt.join(browser.model.path, name ?? '');
    return { browser, folder, node: name ? node : null };
  }

  private async copyAll(paths: string[], place: Place): Promise<void> {
    const { browser, folder } = place;
    try {
      for (const path of paths) {
        await (browser === this.ours
          ? this.copyIn(path, folder)
          : this.copyOut(this.contents.localPath(path), place));
      }
    } catch (error) {
      void showErrorMessage(this.trans.__('Not copied'), error as Error);
    }
    await browser.model.refresh();
  }

  /** A file or folder of another drive, into the sandbox. */
  private async copyIn(from: string, folder: string): Promise<void> {
    const name = PathExt.basename(this.contents.localPath(from));
    const model = await this.contents.get(from, { content: false });
    if (model.type !== 'directory') {
      const url = await this.contents.getDownloadUrl(from);
      const file = new File([await this.fetched(url)], name);
      await this.uploads.send(file, folder);
      return;
    }
    const made = PathExt.join(this.contents.localPath(folder), name);
    try {
      await this.drive.save(made, { type: 'directory' });
    } catch (error) {
      if (!isTaken(error)) {
        throw error; // what is in the folder of that name stays, and more comes to it
      }
    }
    const listing = await this.contents.get(from);
    for (const child of listing.content as Contents.IModel[]) {
      await this.copyIn(child.path, made);
    }
  }

  private async fetched(url: string): Promise<Blob> {
    const { serverSettings } = this.drive;
    const isServers = new URL(url, location.href).href.startsWith(
      new URL(serverSettings.baseUrl, location.href).href
    );
    const answer = isServers
      ? await ServerConnection.makeRequest(url, {}, serverSettings)
      : await fetch(url);
    if (!answer.ok) {
      throw new ServerConnection.ResponseError(answer);
    }
    return answer.blob();
  }

  /** By Lab's own upload. That of Lab 4.2 knows the folder that is shown only; to another one the file is saved. */
  private async upload(file: File, { browser, folder }: Place): Promise<void> {
    const { model } = browser;
    const upload = model.upload.bind(model) as (
      file: File,
      folder?: string
    ) => Promise<unknown>;
    if (folder === model.path || model.upload.length > 1) {
      await upload(file, folder);
      return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const content = contentOf(bytes, this.trans, 'file', 'base64');
    await this.contents.save(PathExt.join(folder, file.name), content);
  }

  /**
   * A file or folder of the sandbox, to another drive: as bytes, never as a notebook, which a server signs as trusted
   * if it says so. A folder becomes a new one, so that nothing of the guest's mixes with a person's own.
   */
  private async copyOut(from: string, place: Place): Promise<void> {
    const name = PathExt.basename(from);
    const to = PathExt.join(place.folder, name);
    const { browser } = place;
    const exists = await this.exists(to);
    const isFolder =
      (await this.drive.get(from, { content: false })).type === 'directory';
    if (isFolder && exists) {
      throw new Error(
        this.trans.__(
          'There is already a "%1" there. Rename one of them, or drop it on another folder.',
          name
        )
      );
    }
    if (!isFolder) {
      // Lab itself asks about files in the folder that it shows.
      const asks = place.folder === browser.model.path;
      if (exists && !asks && !(await this.mayReplace(name))) {
        return;
      }
      const file = new File([await this.drive.routes.read(from)], name);
      await this.upload(file, place).catch((error: unknown) => {
        if (error instanceof Error) {
          throw error; // else the person said no
        }
      });
      return;
    }
    await this.makeFolder(place.folder, name);
    const listing = await this.drive.get(from);
    for (const child of listing.content as Contents.IModel[]) {
      if (!child.name.startsWith('.')) {
        await this.copyOut(child.path, { ...place, folder: to });
      }
    }
  }

  /** Lab's server makes folders without a name, and gives them one. */
  private async makeFolder(folder: string, name: string): Promise<void> {
    const made = await this.contents.newUntitled({
      path: folder,
      type: 'directory'
    });
    await this.contents.rename(made.path, PathExt.join(folder, name));
  }

  private async exists(path: string): Promise<boolean> {
    return this.contents.get(path, { content: false }).then(
      () => true,
      () => false
    );
  }

  private async mayReplace(name: string): Promise<boolean> {
    const answer = await showDialog({
      title: this.trans.__('Replace the file?'),
      body: this.trans.__('"%1" is already there.', name),
      buttons: [
        Dialog.cancelButton({ label: this.trans.__('Skip') }),
        Dialog.warnButton({ label: this.trans.__('Replace') })
      ]
    });
    return answer.button.accept;
  }

  private marked: Element | null = null;
}

function localPath(browser: FileBrowser): string {
  return browser.model.path.replace(`${DRIVE}:`, '');
}
