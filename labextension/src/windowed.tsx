import { type ReactNode, useEffect, useRef, useState } from 'react';

const CHUNK = 10; // items: drawing these is less than half of the time that a picture has
const ESTIMATE = 60; // pixels of an item that was never seen
const MARGIN = '800px';

/** A long list of which only what is in sight, and some of its surroundings, is in the page. */
export function Windowed<T>(props: {
  items: T[];
  label: string;
  className: string;
  /** Draws an item, with `data-index`. */
  render: (item: T, index: number) => ReactNode;
  /** Somebody has come near the end. */
  onEnd: () => void;
}): JSX.Element {
  const { items, render } = props;
  const chunks: T[][] = [];
  for (let from = 0; from < items.length; from += CHUNK) {
    chunks.push(items.slice(from, from + CHUNK));
  }
  return (
    <div role="list" aria-label={props.label} className={props.className}>
      {chunks.map((chunk, number) => (
        <Chunk key={number} number={number} count={chunk.length}>
          {() => chunk.map((item, i) => render(item, number * CHUNK + i))}
        </Chunk>
      ))}
      <End key={items.length} reached={props.onEnd} />
    </div>
  );
}

/** Do something with an item. One that is not in the page comes when its place is in sight. */
export function showItem(
  within: HTMLElement,
  index: number,
  found: (item: HTMLElement) => void
): void {
  let tries = 60; // pictures
  const look = () => {
    const item = within.querySelector<HTMLElement>(`[data-index="${index}"]`);
    if (item) {
      found(item);
    } else if (tries-- > 0) {
      within
        .querySelector(`[data-chunk="${Math.floor(index / CHUNK)}"]`)
        ?.scrollIntoView({ block: 'nearest' });
      requestAnimationFrame(look);
    }
  };
  look();
}

/** Some items; while out of sight, an empty box as high as they were. */
function Chunk(props: {
  number: number;
  count: number;
  children: () => ReactNode;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  const [isNear, setNear] = useState(props.number === 0);
  useEffect(
    () =>
      observe(box.current, (near, node) => {
        if (near || !node.contains(document.activeElement)) {
          height.current = near ? 0 : node.offsetHeight;
          setNear(near);
        }
      }),
    []
  );
  const empty = height.current || props.count * ESTIMATE;
  return (
    <div
      ref={box}
      role="presentation"
      data-chunk={props.number}
      style={isNear ? undefined : { height: empty }}
    >
      {isNear && props.children()}
    </div>
  );
}

function End(props: { reached: () => void }): JSX.Element {
  const mark = useRef<HTMLDivElement>(null);
  const { reached } = props;
  useEffect(() => observe(mark.current, near => near && reached()), []);
  return <div ref={mark} role="presentation" style={{ height: 1 }} />;
}

/** Be told when an element comes near what is in sight, and when it no longer is; the way to stop that. */
function observe<T extends HTMLElement>(
  node: T | null,
  told: (near: boolean, node: T) => void
): () => void {
  if (!node) {
    return () => undefined;
  }
  const observer = new IntersectionObserver(
    entries => told(entries[entries.length - 1].isIntersecting, node),
    { root: node.closest('.jp-WasmKernel-view'), rootMargin: MARGIN }
  );
  observer.observe(node);
  return () => observer.disconnect();
}
