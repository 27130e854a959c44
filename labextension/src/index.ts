/** The plugin: a panel beside the notebook, buttons in its toolbar, commands, and an item in the status bar. */

import {
  ILabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  IToolbarWidgetRegistry,
  CommandToolbarButton
} from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { redoIcon, SidePanel, undoIcon } from '@jupyterlab/ui-components';
import type { AccordionPanel } from '@lumino/widgets';
import { Actions } from './actions';
import { SandboxDrive } from './drive';
import { createFilesView } from './files';
import { sealedIcon, timelineIcon, trustedIcon } from './icons';
import { Sessions } from './sessions';
import { TimelineView } from './timeline';
import { markUndoneCells } from './undone';
import { UsageItem } from './usage';
import { VariablesView } from './variables';

const CommandIDs = {
  undo: 'wasm-kernel:undo-cell',
  redo: 'wasm-kernel:redo-cell',
  trust: 'wasm-kernel:toggle-trust',
  show: 'wasm-kernel:show-timeline'
};
const PANEL = 'wasm-kernel-panel';
const FACTORY = 'Notebook';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'wasm-kernel:plugin',
  description:
    'The timeline, the files and the variables of a sealed notebook beside it.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [
    ICommandPalette,
    IToolbarWidgetRegistry,
    IStatusBar,
    ITranslator,
    ILabShell,
    IFileBrowserFactory
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    toolbar: IToolbarWidgetRegistry | null,
    statusBar: IStatusBar | null,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    browsers: IFileBrowserFactory | null
  ) => {
    const trans = (translator ?? nullTranslator).load('wasm_kernel');
    const sessions = new Sessions(tracker);
    const actions = new Actions(sessions, trans, path =>
      app.commands.execute('docmanager:open', {
        path,
        options: { mode: 'split-right' }
      })
    );

    const panel = new SidePanel();
    panel.id = PANEL;
    panel.addClass('jp-WasmKernel');
    panel.title.icon = timelineIcon;
    panel.title.caption = trans.__(
      'Timeline, files and variables of the notebook'
    );
    panel.addWidget(new TimelineView(sessions, actions, trans));
    if (browsers) {
      const drive = new SandboxDrive();
      const { contents } = app.serviceManager;
      contents.addDrive(drive);
      panel.addWidget(
        createFilesView(browsers, contents, drive, sessions, trans)
      );
    }
    panel.addWidget(new VariablesView(sessions, trans));
    (panel.content as AccordionPanel).setRelativeSizes([3, 3, 2]);
    app.shell.add(panel, 'right', { rank: 700, type: 'Timeline' });

    const state = () => sessions.connection()?.state;
    app.commands.addCommand(CommandIDs.undo, {
      label: trans.__('Undo Cell Execution'),
      caption: trans.__('Variables and files as before the last cell'),
      icon: undoIcon,
      isEnabled: () => state()?.canUndo ?? false,
      isVisible: () => sessions.connection() !== null,
      execute: () => actions.undo()
    });
    app.commands.addCommand(CommandIDs.redo, {
      label: trans.__('Redo Cell Execution'),
      caption: trans.__('Take the last undo back'),
      icon: redoIcon,
      isEnabled: () => state()?.canRedo ?? false,
      isVisible: () => sessions.connection() !== null,
      execute: () => actions.redo()
    });
    app.commands.addCommand(CommandIDs.trust, {
      label: () =>
        state()?.trusted
          ? trans.__('Outputs Are Trusted')
          : trans.__('Outputs Are Sealed'),
      caption: () =>
        state()?.trusted
          ? trans.__('Scripts in outputs run as you. Click to seal them again.')
          : trans.__(
              'Outputs run no scripts in this page and load nothing. Click to trust them.'
            ),
      icon: () => (state()?.trusted ? trustedIcon : sealedIcon),
      isToggled: () => state()?.trusted ?? false,
      isVisible: () => sessions.connection() !== null,
      execute: () => actions.toggleTrust()
    });
    app.commands.addCommand(CommandIDs.show, {
      label: trans.__('Show Timeline'),
      icon: timelineIcon,
      execute: () => {
        app.shell.activateById(PANEL);
        labShell?.expandRight();
      }
    });
    sessions.changed.connect(() => {
      for (const id of [CommandIDs.undo, CommandIDs.redo, CommandIDs.trust]) {
        app.commands.notifyCommandChanged(id);
      }
    });
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: trans.__('Sandbox') });
    }
    for (const [name, id] of Object.entries(CommandIDs)) {
      toolbar?.addFactory(
        FACTORY,
        `wasm-kernel-${name}`,
        () =>
          new CommandToolbarButton({ commands: app.commands, id, label: '' })
      );
    }
    statusBar?.registerStatusItem('wasm-kernel:usage', {
      item: new UsageItem(
        sessions,
        () => void app.commands.execute(CommandIDs.show),
        trans
      ),
      align: 'left',
      rank: 100
    });
    markUndoneCells(sessions);
  }
};

export default plugin;
