import {
  Notification,
  showErrorMessage,
  ToolbarButton
} from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import {
  type FileBrowser,
  type IFileBrowserFactory,
  Uploader
} from '@jupyterlab/filebrowser';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { newFolderIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { Drag } from '@lumino/dragdrop';
import { DRIVE, FileProblem, type SandboxDrive, split } from './drive';
import type { Sessions } from './sessions';
import { size } from './words';

const DRAGGED = 'application/x-jupyter-icontents';
const LISTING = '.jp-DirListing-content';

/** Lab's own file browser on the files of the active notebook's session. */
export function createFilesView(
  factory: IFileBrowserFactory,
  contents: Contents.IManager,
  drive: SandboxDrive,
  sessions: Sessions,
  trans: TranslationBundle
): FileBrowser {
  const browser = factory.createFileBrowser('wasm-kernel-files', {
    driveName: DRIVE,
    auto: false,
    restore: false,
    refreshInterval: 5000
  });
  browser.addClass('jp-WasmKernel-files');
  browser.title.label = trans.__('Files');
  browser.title.icon = undefined;
  const uploads = new Uploads(drive, trans);
  browser.model.upload = (file: File, path?: string) =>
    uploads.send(file, path ?? browser.model.path);
  browser.toolbar.addItem(
    'new-folder',
    new ToolbarButton({
      icon: newFolderIcon,
      tooltip: trans.__('New Folder'),
      onClick: () => void browser.createNewDirectory()
    })
  );
  browser.toolbar.addItem('upload', new Uploader({ model: browser.model }));
  browser.toolbar.addItem(
    'refresh',
    new ToolbarButton({
      icon: refreshIcon,
      tooltip: trans.__('Refresh the list'),
      onClick: () => void browser.model.refresh()
    })
  );
  follow(browser, sessions);
  acceptAcross(browser, factory, contents);
  return browser;
}

/** Show the session of the active notebook, and what its cells changed. */
function follow(browser: FileBrowser, sessions: Sessions): void {
  let shown = '';
  let moment = '';
  sessions.changed.connect(() => {
    const state = sessions.connection()?.state;
    const session = state?.session ?? '';
    const now = state?.rows.map(row => row.state + row.number).join(' ') ?? '';
    if (session !== shown) {
      shown = session;
      void browser.model.cd(`/${shown}`);
    } else if (now !== moment) {
      void browser.model.refresh();
    }
    moment = now;
  });
}

/** Uploads of any size: what does not fit is not sent, and the person sees how far each is. */
class Uploads {
  constructor(
    private readonly drive: SandboxDrive,
    private readonly trans: TranslationBundle
  ) {}

  async send(file: File, folder: string): Promise<Contents.IModel> {
    const path = PathExt.join(folder.replace(`${DRIVE}:`, ''), file.name);
    const { free, maxFile } = await this.drive.room(split(path).session);
    const most = Math.min(free, maxFile);
    if (file.size > most) {
      const problem = this.trans.__(
        '%1 has %2; this session has room for %3. Delete files, or raise the limit with %session limits disk=…',
        file.name,
        size(file.size),
        size(most)
      );
      void showErrorMessage(this.trans.__('It does not fit'), problem);
      throw new FileProblem(problem);
    }
    const message = this.trans.__('Uploading %1', file.name);
    const id = Notification.emit(message, 'in-progress', { progress: 0 });
    try {
      const model = await this.drive.upload(path, file, progress => {
        Notification.update({ id, progress });
      });
      Notification.update({
        id,
        message: this.trans.__('Uploaded %1', file.name),
        type: 'success',
        progress: 1,
        autoClose: 3000
      });
      return model;
    } catch (error) {
      Notification.update({
        id,
        message: error instanceof Error ? error.message : String(error),
        type: 'error',
        autoClose: false
      });
      throw error;
    }
  }
}

/** Files dragged between Lab's own browser and ours are copied: Lab itself moves them within one drive only. */
function acceptAcross(
  ours: FileBrowser,
  factory: IFileBrowserFactory,
  contents: Contents.IManager
): void {
  const handle = (found: Event) => {
    const event = found as unknown as Drag.Event;
    const target = targetOf(event, ours, factory);
    const paths = event.mimeData.getData(DRAGGED) as string[] | undefined;
    if (!paths || !target) {
      return;
    }
    const isOurs = (path: string) => contents.driveName(path) === DRIVE;
    const foreign = paths.filter(path => isOurs(path) !== (target === ours));
    if (foreign.length === 0) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    if (event.type === 'lm-drop') {
      void copyAll(contents, foreign, target);
    }
  };
  // Before the list itself, which takes what is dropped on folders only.
  for (const type of ['lm-dragenter', 'lm-dragover', 'lm-drop']) {
    document.addEventListener(type, handle, true);
    ours.disposed.connect(() =>
      document.removeEventListener(type, handle, true)
    );
  }
}

async function copyAll(
  contents: Contents.IManager,
  paths: string[],
  target: FileBrowser
): Promise<void> {
  try {
    for (const path of paths) {
      await copyAcross(contents, path, target.model.path);
    }
    await target.model.refresh();
  } catch (error) {
    void showErrorMessage(
      PathExt.basename(paths[0]),
      error instanceof Error ? error.message : String(error)
    );
  }
}

/** The file browser on whose list something is dropped. */
function targetOf(
  event: Drag.Event,
  ours: FileBrowser,
  factory: IFileBrowserFactory
): FileBrowser | null {
  const list = (event.target as HTMLElement | null)?.closest?.(LISTING);
  if (!list) {
    return null;
  }
  if (ours.node.contains(list)) {
    return ours;
  }
  return factory.tracker.find(each => each.node.contains(list)) ?? null;
}

async function copyAcross(
  contents: Contents.IManager,
  from: string,
  folder: string
): Promise<void> {
  const model = await contents.get(from);
  const to = PathExt.join(folder, model.name);
  if (model.type === 'directory') {
    await contents.save(to, { type: 'directory', name: model.name });
    for (const child of model.content as Contents.IModel[]) {
      const drive = contents.driveName(from);
      const path = drive
        ? `${drive}:${contents.localPath(child.path)}`
        : child.path;
      await copyAcross(contents, path, to);
    }
    return;
  }
  await contents.save(to, {
    name: model.name,
    type: model.type,
    format: model.format,
    content: model.content as unknown
  });
}
