/**
 * Frames of sealed outputs get the height of their documents, so that they neither scroll nor leave a gap.
 *
 * A frame holds what a guest wrote, scripts and all. What it says of its height is data: a number within bounds, taken
 * from time to time, for its own box and for nothing else. `wasm_kernel/kernel/seal/frames.py` makes the frames.
 */

export const LEAST = 16;
export const MOST = 10_000;
/** Changes that are made at once, and how many a second there are after these. */
const BURST = 20;
const PER_SECOND = 1;
const PAUSE = 40; // milliseconds in which what a frame says counts as one
/** A frame that says this much between two changes is not listened to. */
const MOST_SAID = 50;
const BOX = 'wasm-kernel-frame';

/** The height in a frame's message, within bounds; null if there is none. */
export function heightIn(data: unknown): number | null {
  const said =
    typeof data === 'object' && data !== null
      ? (data as { wasmKernelHeight?: unknown }).wasmKernelHeight
      : null;
  return typeof said === 'number' && said > 0
    ? Math.min(Math.max(Math.ceil(said), LEAST), MOST)
    : null;
}

/** One frame's height: follows what the frame says, but no faster than a page bears. */
export class FrameHeight {
  /** `apply` sets the height; the others are the clock. */
  constructor(
    private readonly apply: (pixels: number) => void,
    private readonly now: () => number = () => performance.now(),
    private readonly later: (work: () => void, ms: number) => void = (w, ms) =>
      void setTimeout(w, ms)
  ) {
    this.counted = now();
  }

  /** The frame has said something. */
  said(message: { readonly data: unknown }): void {
    if (++this.messages > MOST_SAID) {
      return; // before its data is read, which may be large
    }
    const height = heightIn(message.data);
    if (height === null) {
      return;
    }
    this.wanted = height;
    if (!this.waits) {
      this.waits = true;
      this.later(() => this.change(), this.pause());
    }
  }

  private pause(): number {
    const now = this.now();
    const earned = ((now - this.counted) / 1000) * PER_SECOND;
    this.left = Math.min(BURST, this.left + earned);
    this.counted = now;
    return this.left >= 1 ? PAUSE : ((1 - this.left) / PER_SECOND) * 1000;
  }

  private change(): void {
    this.waits = false;
    this.messages = 0;
    this.pause();
    if (this.wanted !== this.height) {
      this.left -= 1;
      this.height = this.wanted;
      this.apply(this.height);
    }
  }

  private messages = 0;
  private waits = false;
  private wanted = 0;
  private height = 0;
  private left = BURST;
  private counted: number;
}

/** Follow the heights of all frames in this page. */
export function followFrameHeights(): void {
  const known = new WeakMap<object, FrameHeight | null>();
  window.addEventListener('message', event => {
    const source = event.source as Window | null;
    // A document in a frame in a frame of this page; where it comes from is what the browser says.
    if (source?.parent?.parent !== window || source.parent === window) {
      return;
    }
    let frame = known.get(source);
    if (frame === undefined) {
      const box = boxOf(source.parent);
      frame = box && new FrameHeight(pixels => resize(box, pixels));
      known.set(source, frame);
    }
    frame?.said(event);
  });
}

/** The box of an outer frame. */
function boxOf(frame: Window): HTMLElement | null {
  for (const box of document.querySelectorAll<HTMLElement>(`.${BOX}`)) {
    if (box.querySelector('iframe')?.contentWindow === frame) {
      return box;
    }
  }
  return null;
}

function resize(box: HTMLElement, pixels: number): void {
  Object.assign(box.style, {
    height: `${pixels}px`,
    minHeight: '0',
    paddingBottom: '0',
    resize: 'none'
  });
}
