/**
 * What the kernel and this extension say to each other, on one comm.
 * `wasm_kernel/kernel/side_panel/panel_protocol.py` explains it and has the same shapes; a test compares the two.
 */

export const TARGET = 'wasm-kernel';
export const VERSION = 1;

/** What a person can ask for. Each request gets one answer. */
export type Request =
  | { do: 'look' }
  | { do: 'undo'; cells?: number; confirmed?: boolean }
  | { do: 'redo' }
  | { do: 'restore'; row: string; confirmed?: boolean }
  | { do: 'name'; row: string; label: string }
  | { do: 'compare'; row: string }
  | { do: 'fork'; row: string }
  | { do: 'trust'; on: boolean }
  | { do: 'limits'; change: string };

/** Names that a cell added, changed and removed. */
export interface Changes {
  added: string[];
  changed: string[];
  removed: string[];
}

/** A moment of the session: a cell that ran, or one that a person named. */
export interface Row {
  /** What to go back to; empty while it is not stored yet. */
  id: string;
  /** The cell's number; 0 is the moment before the first cell. */
  number: number | null;
  code: string;
  at: string;
  seconds: number | null;
  ok: boolean;
  variables: Changes;
  files: Changes;
  label: string;
  state: 'now' | 'past' | 'undone';
}

export interface Variable {
  name: string;
  type: string;
  size: number;
  value: string;
}

export interface Usage {
  used: number | null;
  limit: number;
}

/** Everything that is shown without being asked for. */
export interface State {
  session: string;
  rows: Row[];
  canUndo: boolean;
  canRedo: boolean;
  variables: Variable[];
  memory: Usage;
  disk: Usage;
  limits: { [name: string]: string };
  trusted: boolean;
}

/** How a variable was and is. */
export interface VariableDifference {
  name: string;
  then: string;
  now: string;
}

export interface Differences {
  variables: {
    added: VariableDifference[];
    changed: VariableDifference[];
    removed: VariableDifference[];
  };
  files: Changes;
}

/** What to ask the person before a request is sent again, confirmed. */
export interface Confirm {
  files: string[];
}

export interface Answer {
  answer: number;
  result?: { [name: string]: unknown };
  confirm?: Confirm;
  error?: string;
}

export interface Hello {
  version: number;
  kernel: string;
}

export type FromKernel = Answer | { state: State } | { hello: Hello };
