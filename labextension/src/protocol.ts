/**
 * What the kernel and this extension say to each other, on one comm.
 * `wasm_kernel/kernel/side_panel/panel_protocol.py` explains it and has the same shapes; a test compares the two.
 */

export const TARGET = 'wasm-kernel';
export const VERSION = 2;
/** How much of a table is fetched at a time. */
export const PAGE_ROWS = 200;
export const PAGE_COLUMNS = 40;
/** How many variables a state has at most. */
export const MOST_VARIABLES = 500;
/** How many names a row has at most of what was added, of what was changed and of what was removed; and a comparison. */
export const MOST_NAMES = 20;
export const MOST_COMPARED = 200;

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
  | { do: 'limits'; change: string }
  | { do: 'values' }
  | { do: 'page'; name: string; row?: number; column?: number; at?: string }
  | { do: 'seen'; notice: string }
  | { do: 'reset' }
  | { do: 'older'; skip?: number; count?: number };

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
  /** Whether its checkpoint is no longer kept, so that nobody can go back to it. */
  gone: boolean;
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

/** The first values of a variable, when the sandbox was last at rest. */
export interface FirstValues {
  shape: number[];
  bytes: number;
  first: string;
  /** Whether it can be shown as a table. */
  opens: boolean;
}

/** What is in a table: a text, or a list of one that stands for something else, such as no value. */
export type Cell = string | [string];

/** Some rows and columns of a table; `labels` and `cells` are lists of columns. */
export interface Page {
  kind: string;
  shape: number[];
  /** Where an array of more than two dimensions is cut. */
  at: number[];
  rows: number;
  columns: number;
  row: number;
  column: number;
  levels: string[];
  labels: Cell[][];
  names: string[];
  types: string[];
  cells: Cell[][];
}

/** A limit as it is, and what it can be raised to. */
export interface Limit {
  value: string;
  most: string;
}

export interface Usage {
  used: number | null;
  limit: number;
}

/** Everything that is shown without being asked for. */
export interface State {
  session: string;
  /** Another one whenever variables may have changed. */
  moment: number;
  rows: Row[];
  /** How many cells ran whose checkpoints are gone; `older` asks for their rows. */
  older: number;
  /** How many checkpoints are kept. */
  kept: number;
  canUndo: boolean;
  canRedo: boolean;
  variables: Variable[];
  memory: Usage;
  disk: Usage;
  limits: { [name: string]: Limit };
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
  /** The sandbox is not at rest: ask when the cell has ended. */
  busy?: boolean;
  error?: string;
}

export interface Hello {
  version: number;
  kernel: string;
}

/** What the person should know. It is told until a front end answers that it was seen. */
export interface Notice {
  id: string;
  kind: 'continued' | 'lost' | 'unstored' | 'prune' | 'note';
  /** Whether nothing is wrong. */
  good: boolean;
  /** All of it in the kernel's own words, with what to type. */
  text: string;
  values: {
    at?: string;
    cells?: number[];
    why?: string;
    due?: string;
    sessions?: number;
  };
}

/** The image that is being built; every request waits for it. */
export interface Progress {
  id: string;
  state: 'running' | 'ready' | 'stopped' | 'failed';
  step: number;
  steps: number;
  fraction: number;
  /** Why it ended without an image. */
  text: string;
}

export type FromKernel =
  | Answer
  | { state: State }
  | { hello: Hello }
  | { notice: Notice }
  | { progress: Progress };
