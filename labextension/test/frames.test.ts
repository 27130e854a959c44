import { describe, expect, test } from 'vitest';
import { FrameHeight, heightIn, LEAST, MOST } from '../src/frames';

/** A frame whose clock is turned by hand. */
function frame() {
  const heights: number[] = [];
  let time = 0;
  let work: { at: number; run: () => void } | null = null;
  const height = new FrameHeight(
    pixels => heights.push(pixels),
    () => time,
    (run, ms) => (work = { at: time + ms, run })
  );
  return {
    heights,
    says: (data: unknown) => height.said({ data }),
    asks: (pixels: number) => height.said({ data: say(pixels) }),
    pass: (ms: number) => {
      time += ms;
      if (work && work.at <= time) {
        const { run } = work;
        work = null;
        run();
      }
    },
    height
  };
}

const say = (pixels: unknown) => ({ wasmKernelHeight: pixels });

test.each([
  [say(731), 731],
  [say(730.2), 731],
  [say(1), LEAST],
  [say(1e9), MOST],
  [say(Infinity), MOST]
])('%j is a height of %d', (data, pixels) => {
  expect(heightIn(data)).toBe(pixels);
});

test.each([
  null,
  undefined,
  731,
  '731',
  [],
  {},
  say(0),
  say(-5),
  say(NaN),
  say('731'),
  say([731]),
  say({ valueOf: () => 731 })
])('%j is no height', data => {
  expect(heightIn(data)).toBeNull();
});

describe('a frame', () => {
  test('gets the last height that it asks for', () => {
    const one = frame();
    one.asks(100);
    one.asks(300);
    expect(one.heights).toEqual([]);
    one.pass(100);
    expect(one.heights).toEqual([300]);
    one.asks(200);
    one.pass(100);
    expect(one.heights).toEqual([300, 200]);
  });

  test('that asks for what it has changes nothing', () => {
    const one = frame();
    for (let n = 0; n < 5; n += 1) {
      one.asks(300);
      one.pass(100);
    }
    expect(one.heights).toEqual([300]);
  });

  test('that never rests changes once a second, and not beyond the bound', () => {
    const one = frame();
    for (let n = 0; n < 1000; n += 1) {
      one.asks(n % 2 ? 1e6 : n);
      one.pass(100);
    }
    expect(one.heights.length).toBeLessThan(20 + 100 + 5);
    expect(one.heights.length).toBeGreaterThan(20);
    expect(Math.max(...one.heights)).toBe(MOST);
  });

  test('has its quick changes again after a rest', () => {
    const one = frame();
    for (let n = 0; n < 30; n += 1) {
      one.asks(100 + n);
      one.pass(50);
    }
    expect(one.heights.length).toBeLessThan(30);
    one.pass(60_000);
    one.asks(500);
    one.pass(50);
    expect(one.heights.at(-1)).toBe(500);
  });

  test('that talks rubbish is not listened to, and its messages are not read', () => {
    const one = frame();
    let read = 0;
    const rubbish = {
      get data() {
        read += 1;
        return 'rubbish';
      }
    };
    for (let n = 0; n < 1000; n += 1) {
      one.height.said(rubbish);
    }
    expect(read).toBe(50);
    one.asks(300);
    one.pass(100);
    expect(one.heights).toEqual([]);
  });
});
