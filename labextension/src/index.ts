/**
 * The plugins: the drive with the sessions' files, on every page; and where there are notebooks a panel beside them,
 * buttons in their toolbar, commands, and an item in the status bar. Jupyter Notebook has none; there the panel shows it.
 */

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  IThemeManager,
  IToolbarWidgetRegistry,
  CommandToolbarButton
} from '@jupyterlab/apputils';
import {
  type FileBrowser,
  IDefaultFileBrowser,
  IFileBrowserFactory
} from '@jupyterlab/filebrowser';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { redoIcon, SidePanel, undoIcon } from '@jupyterlab/ui-components';
import { type ReadonlyPartialJSONObject, Token } from '@lumino/coreutils';
import type { AccordionPanel } from '@lumino/widgets';
import { Actions } from './actions';
import { SandboxDrive } from './drive';
import {
  addFileCommands,
  createFilesView,
  keepLabsBrowserCurrent
} from './files';
import { followFrameHeights } from './frames';
import { OpenTables } from './open_tables';
import { sealedIcon, timelineIcon, trustedIcon } from './icons';
import { showNotices } from './notices';
import { Sessions } from './sessions';
import { TimelineView } from './timeline';
import { markUndoneCells } from './undone';
import { UsageItem } from './usage';
import { VariablesView } from './variables';

const CommandIDs = {
  undo: 'wasm-kernel:undo-cell',
  redo: 'wasm-kernel:redo-cell',
  trust: 'wasm-kernel:toggle-trust',
  limits: 'wasm-kernel:change-limits',
  show: 'wasm-kernel:show-timeline'
};
const PANEL = 'wasm-kernel-panel';
const FACTORY = 'Notebook';

const ISandboxDrive = new Token<SandboxDrive>('wasm-kernel:ISandboxDrive');

/** Also where there is no notebook: Jupyter Notebook opens each file in a page of its own. */
const drivePlugin: JupyterFrontEndPlugin<SandboxDrive> = {
  id: 'wasm-kernel:drive',
  description: 'The files of sealed notebooks.',
  autoStart: true,
  provides: ISandboxDrive,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const { contents, serverSettings } = app.serviceManager;
    const drive = new SandboxDrive(
      serverSettings,
      path => app.docRegistry.getFileTypesForPath(path)[0]?.mimeTypes[0] ?? '',
      (translator ?? nullTranslator).load('wasm_kernel')
    );
    contents.addDrive(drive);
    return drive;
  }
};

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'wasm-kernel:plugin',
  description:
    'The timeline, the files and the variables of a sealed notebook beside it.',
  autoStart: true,
  requires: [ISandboxDrive],
  optional: [
    INotebookTracker,
    ICommandPalette,
    IToolbarWidgetRegistry,
    IStatusBar,
    ITranslator,
    ILabShell,
    ILayoutRestorer,
    IFileBrowserFactory,
    IDefaultFileBrowser,
    IThemeManager
  ],
  activate: (
    app: JupyterFrontEnd,
    drive: SandboxDrive,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null,
    toolbar: IToolbarWidgetRegistry | null,
    statusBar: IStatusBar | null,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    browsers: IFileBrowserFactory | null,
    labsBrowser: FileBrowser | null,
    themes: IThemeManager | null
  ) => {
    if (!tracker) {
      return; // a page without notebooks
    }
    const trans = (translator ?? nullTranslator).load('wasm_kernel');
    const sessions = new Sessions(tracker, trans);
    const actions = new Actions(sessions, trans, path =>
      app.commands.execute('docmanager:open', {
        path,
        options: { mode: 'split-right' }
      })
    );

    showNotices(sessions, actions, trans);

    const panel = new SidePanel();
    panel.id = PANEL;
    panel.addClass('jp-WasmKernel');
    panel.title.icon = timelineIcon;
    panel.title.caption = trans.__(
      'Timeline, files and variables of the notebook'
    );
    panel.addWidget(new TimelineView(sessions, actions, trans));
    if (browsers) {
      const { contents } = app.serviceManager;
      const files = createFilesView(
        browsers,
        contents,
        drive,
        sessions,
        actions,
        trans
      );
      panel.addWidget(files);
      addFileCommands(app, files, drive, trans);
      if (labsBrowser) {
        keepLabsBrowserCurrent(labsBrowser, files, browsers, labShell);
      }
    }
    const tables = new OpenTables(app, labShell, sessions, themes, trans);
    panel.addWidget(
      new VariablesView(sessions, name => void tables.open(name), trans)
    );
    const sections = panel.content as AccordionPanel;
    sections.setRelativeSizes([5, 3, 3]);
    app.shell.add(panel, 'right', { rank: 700, type: 'Timeline' });
    if (restorer) {
      restorer.add(panel, PANEL); // where it was, and open if it was, after the page was loaded anew
      keepSizes(sections, app);
    }

    keepToastsOff(panel);

    // Buttons name their notebook: the one that is pressed need not be that of the active notebook.
    const notebook = (args: ReadonlyPartialJSONObject) =>
      tracker.find(each => each.id === args.notebook) ?? sessions.notebook;
    const connection = (args: ReadonlyPartialJSONObject) =>
      sessions.connection(notebook(args));
    const isTrusted = (args: ReadonlyPartialJSONObject) =>
      connection(args)?.state?.trusted ?? false;
    app.commands.addCommand(CommandIDs.undo, {
      label: trans.__('Undo Cell Execution'),
      caption: trans.__('Variables and files as before the last cell'),
      icon: undoIcon,
      isEnabled: args => connection(args)?.state?.canUndo ?? false,
      isVisible: args => connection(args) !== null,
      execute: args => actions.undo(notebook(args))
    });
    app.commands.addCommand(CommandIDs.redo, {
      label: trans.__('Redo Cell Execution'),
      caption: trans.__('Take the last undo back'),
      icon: redoIcon,
      isEnabled: args => connection(args)?.state?.canRedo ?? false,
      isVisible: args => connection(args) !== null,
      execute: args => actions.redo(notebook(args))
    });
    app.commands.addCommand(CommandIDs.trust, {
      // A button says how it is; what is in a list, what it does.
      label: args =>
        args.notebook
          ? isTrusted(args)
            ? trans.__('Outputs Are Trusted')
            : trans.__('Outputs Are Sealed')
          : isTrusted(args)
            ? trans.__('Seal Outputs Again')
            : trans.__('Trust Outputs…'),
      caption: args =>
        isTrusted(args)
          ? trans.__('Scripts in outputs run as you. Click to seal them again.')
          : trans.__(
              'Outputs run no scripts in this page and load nothing. Click to trust them.'
            ),
      icon: args => (isTrusted(args) ? trustedIcon : sealedIcon),
      isVisible: args => connection(args)?.stranger === null,
      execute: args => actions.toggleTrust(notebook(args))
    });
    app.commands.addCommand(CommandIDs.limits, {
      label: trans.__('Change Limits…'),
      caption: trans.__('How much memory, disk and time this notebook may use'),
      isVisible: () => sessions.connection() !== null,
      execute: () => actions.changeLimits()
    });
    app.commands.addCommand(CommandIDs.show, {
      label: trans.__('Show Timeline'),
      caption: trans.__('Timeline, files and variables beside the notebook'),
      icon: timelineIcon,
      isVisible: args => connection(args) !== null,
      execute: () => {
        app.shell.activateById(PANEL);
        labShell?.expandRight();
      }
    });
    sessions.changed.connect(() => {
      for (const id of Object.values(CommandIDs)) {
        app.commands.notifyCommandChanged(id);
      }
    });
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: trans.__('Sandbox') });
    }
    const button = (id: string, notebook: string) =>
      new CommandToolbarButton({
        commands: app.commands,
        id,
        label: '',
        args: { notebook }
      });
    const { undo, redo, trust } = CommandIDs;
    for (const [name, id] of Object.entries({ undo, redo, trust })) {
      toolbar?.addFactory<NotebookPanel>(
        FACTORY,
        `wasm-kernel-${name}`,
        panel => button(id, panel.id)
      );
    }
    const usage = new UsageItem(
      sessions,
      () => void app.commands.execute(CommandIDs.show),
      () => void app.commands.execute(CommandIDs.limits),
      trans
    );
    if (statusBar) {
      statusBar.registerStatusItem('wasm-kernel:usage', {
        item: usage,
        align: 'left',
        rank: 100
      });
    } else {
      panel.header.addWidget(usage);
    }
    if (!labShell) {
      // Jupyter Notebook has no tabs at its side.
      tracker.widgetAdded.connect((_, { id, toolbar }) => {
        toolbar.addItem('wasm-kernel-show', button(CommandIDs.show, id));
      });
    }
    markUndoneCells(sessions, tracker);
    followFrameHeights();
  }
};

/** Notifications come up in the lower right corner of the page: beside the panel, if that is there. */
function keepToastsOff(panel: SidePanel): void {
  const { body } = document;
  const follow = new ResizeObserver(() => {
    const { left, width } = panel.node.getBoundingClientRect();
    const isThere = width > 0 && left > innerWidth / 2;
    const taken = isThere ? `${innerWidth - left}px` : '0px';
    body.style.setProperty('--jp-wasm-kernel-taken', taken);
  });
  follow.observe(panel.node);
  follow.observe(body);
  panel.disposed.connect(() => follow.disconnect());
}

/** Lab restores the sizes of sections before the panel has a height, so they are lost: set them once more. */
function keepSizes(sections: AccordionPanel, app: JupyterFrontEnd): void {
  const set = sections.setRelativeSizes.bind(sections);
  let sizes = sections.relativeSizes();
  sections.setRelativeSizes = (restored, update) => {
    sizes = restored;
    set(restored, update);
  };
  void app.restored.then(() => set(sizes));
}

export default [drivePlugin, plugin];
