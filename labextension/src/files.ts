import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import { ToolbarButton } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import {
  type FileBrowser,
  type IFileBrowserFactory,
  Uploader
} from '@jupyterlab/filebrowser';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  downloadIcon,
  newFolderIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import { type PanelLayout, Widget } from '@lumino/widgets';
import type { Actions } from './actions';
import { DragAcross } from './drag_across';
import { DRIVE, MOST_LISTED, type SandboxDrive } from './drive';
import { split } from './file_routes';
import type { Sessions } from './sessions';
import { Uploads } from './uploads';

const CommandIDs = {
  up: 'wasm-kernel:files-up',
  zip: 'wasm-kernel:download-folder'
};
/** Milliseconds in which changes of files count as one. */
const PAUSE = 300;
/** Milliseconds between looks at a folder while a cell runs, and otherwise. */
const WHILE_RUNNING = 1000;
const AT_REST = 30_000;
/** A look that takes long is taken less often: it has at most this share of the time. */
const SHARE = 1 / 10;

/** Lab's own file browser on the files of the active notebook's session. */
export function createFilesView(
  factory: IFileBrowserFactory,
  contents: Contents.IManager,
  drive: SandboxDrive,
  sessions: Sessions,
  actions: Actions,
  trans: TranslationBundle
): FileBrowser {
  const browser = factory.createFileBrowser('wasm-kernel-files', {
    driveName: DRIVE,
    auto: false,
    restore: false,
    refreshInterval: AT_REST
  });
  browser.addClass('jp-WasmKernel-files');
  browser.title.label = trans.__('Files');
  browser.title.icon = undefined;
  const uploads = new Uploads(drive, trans, () => actions.changeLimits());
  browser.model.upload = async (file: File, path?: string) => {
    const folder = path ?? browser.model.path;
    await uploads.send(file, folder);
    return contents.get(folder, { content: false }); // nobody looks at it, but the type wants a model
  };
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
  keepPathsUntyped(browser);
  showNotes(browser, drive, sessions, trans);
  new Follower(browser, drive, sessions);
  tellKernel(drive, sessions);
  new DragAcross(browser, factory, contents, drive, uploads, trans);
  return browser;
}

/**
 * Lab makes a notebook, a file or a terminal of its launcher in the folder of the *current* browser, and without a
 * focus that is the one that was added last. Ours is current only while somebody works in it: a notebook belongs into
 * a folder of the server's, not among the files of another one's sandbox.
 */
export function keepLabsBrowserCurrent(
  labs: FileBrowser,
  ours: FileBrowser,
  { tracker }: IFileBrowserFactory,
  shell: ILabShell | null
): void {
  const giveBack = () => {
    const hasFocus = ours.node.contains(document.activeElement);
    if (tracker.currentWidget === ours && !hasFocus) {
      labs.node.dispatchEvent(new FocusEvent('focus')); // what the tracker goes by
    }
  };
  tracker.currentChanged.connect(giveBack);
  shell?.currentChanged.connect(giveBack);
  giveBack();
}

/** What Lab's own commands do not do here: they download files only, and go up in Lab's browser on the left. */
export function addFileCommands(
  app: JupyterFrontEnd,
  browser: FileBrowser,
  drive: SandboxDrive,
  trans: TranslationBundle
): void {
  app.commands.addCommand(CommandIDs.up, {
    label: trans.__('Go Up in the Files of the Sandbox'),
    execute: () => browser.model.cd('..')
  });
  for (const focused of ['.jp-DirListing:focus', '.jp-DirListing-itemText']) {
    app.commands.addKeyBinding({
      command: CommandIDs.up,
      keys: ['Backspace'],
      selector: `.jp-WasmKernel-files .jp-FileBrowser-Panel ${focused}`
    });
  }
  app.commands.addCommand(CommandIDs.zip, {
    label: trans.__('Download as a Zip'),
    icon: downloadIcon.bindprops({ stylesheet: 'menuItem' }),
    execute: () => {
      for (const item of browser.selectedItems()) {
        const link = document.createElement('a');
        const path = app.serviceManager.contents.localPath(item.path);
        link.href = drive.routes.download(path, true);
        link.download = '';
        link.click();
      }
    }
  });
  app.contextMenu.addItem({
    command: CommandIDs.zip,
    selector: '.jp-WasmKernel-files .jp-DirListing-item[data-isdir="true"]',
    rank: 9
  });
}

/** Files that came or went by hand count, too: the kernel tells anew how much is used. */
function tellKernel(drive: SandboxDrive, sessions: Sessions): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  drive.fileChanged.connect(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      sessions
        .connection()
        ?.ask({ do: 'look' })
        .catch(() => undefined);
    }, PAUSE);
  });
}

/** Keeps the browser at the active notebook's session, and up to date with what its cells do. */
class Follower {
  constructor(
    private readonly browser: FileBrowser,
    drive: SandboxDrive,
    private readonly sessions: Sessions
  ) {
    const { model } = browser;
    // The model itself listens, too, but mistakes the paths of all drives but Lab's own.
    drive.fileChanged.connect((_, { oldValue, newValue }) => {
      const here = model.path.replace(`${DRIVE}:`, '');
      for (const path of [oldValue?.path, newValue?.path]) {
        if (path !== undefined && PathExt.dirname(path) === here) {
          this.lookSoon();
        }
      }
    });
    sessions.changed.connect(() => this.follow());
    model.pathChanged.connect((_, { newValue }) => {
      this.leaveFocus();
      const { session, inside } = split(newValue.replace(`${DRIVE}:`, ''));
      if (session) {
        this.folders.set(session, inside);
      } else if (this.session) {
        this.folders.delete(this.session);
        void model.cd(`/${this.session}`); // nothing is above it, and a folder that was deleted leads here, too
      }
    });
    const timer = setInterval(() => {
      const kernel = sessions.notebook?.sessionContext.session?.kernel;
      if (kernel?.status === 'busy' && browser.isVisible && !document.hidden) {
        this.lookSoon(); // what a cell writes appears while it runs
      }
    }, WHILE_RUNNING);
    browser.disposed.connect(() => clearInterval(timer));
  }

  private follow(): void {
    const state = this.sessions.connection()?.state;
    const session = this.sessions.folder;
    const now = state?.rows.map(row => row.state + row.number).join(' ') ?? '';
    const { model } = this.browser;
    if (session !== this.session) {
      this.session = session;
      const folder = this.folders.get(session);
      void model.cd(folder ? `/${session}/${folder}` : `/${session}`);
    } else if (now !== this.moment) {
      void model.refresh();
    }
    this.moment = now;
  }

  /** Some versions of Lab give a list the focus whenever its folder changes, and take it from whoever types in a cell. */
  private leaveFocus(): void {
    const { node } = this.browser;
    if (!node.contains(document.activeElement)) {
      node.inert = true;
      requestAnimationFrame(() => {
        node.inert = false; // the list waits for this picture, too, and was first
      });
    }
  }

  /** Look again: soon, but not so often that looking takes more than its share of the time. */
  private lookSoon(): void {
    if (this.isWaiting || !this.session) {
      return;
    }
    this.isWaiting = true;
    this.looking = this.looking.then(async () => {
      const pause = this.rest - performance.now();
      await new Promise(resolve => setTimeout(resolve, Math.max(0, pause)));
      this.isWaiting = false;
      const begun = performance.now();
      await this.browser.model.refresh().catch(() => undefined); // or nobody would look any more
      const end = performance.now();
      this.rest = end + (end - begun) / SHARE;
    });
  }

  private session = '';
  private moment = '';
  private isWaiting = false;
  private looking = Promise.resolve();
  private rest = 0;
  /** The folder that was last shown of each session. */
  private readonly folders = new Map<string, string>();
}

/** A click beside the folders' names would let a person type a path, which begins with the session's id here. */
function keepPathsUntyped(browser: FileBrowser): void {
  const stop = (event: Event) => {
    const target = event.target as Element;
    const isBeside = !target.closest('.jp-BreadCrumbs-item');
    if (isBeside && target.closest('.jp-BreadCrumbs')) {
      event.stopPropagation();
    }
  };
  browser.node.addEventListener('click', stop, true);
}

/** Says below the list what it does not show. */
function showNotes(
  browser: FileBrowser,
  drive: SandboxDrive,
  sessions: Sessions,
  trans: TranslationBundle
): void {
  const note = new Widget();
  note.addClass('jp-WasmKernel-filesNote');
  note.addClass('jp-WasmKernel-hint');
  note.node.setAttribute('role', 'status');
  (browser.layout as PanelLayout).addWidget(note);
  const show = () => {
    const session = sessions.folder;
    const isEmpty = ![...browser.model.items()].length;
    const total = drive.total(browser.model.path.replace(`${DRIVE}:`, ''));
    note.node.textContent = !session
      ? trans.__(
          'The files of a notebook with the kernel "Python (WebAssembly sandbox)" are here.'
        )
      : total
        ? trans.__(
            'The first %1 of %2 are shown. %session files shows all, page by page.',
            MOST_LISTED.toLocaleString(),
            total.toLocaleString()
          )
        : isEmpty
          ? trans.__('Nothing is here. Drop files onto it, or upload them.')
          : '';
    note.setHidden(!note.node.textContent);
    browser.toggleClass('jp-mod-noSession', !session);
    browser.toolbar.setHidden(!session); // it is in the heading
  };
  sessions.changed.connect(show);
  browser.model.refreshed.connect(show);
  show();
}
