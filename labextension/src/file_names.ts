/** The guest's file names, and other texts of one line, as they can be shown: nothing hides, reorders or breaks a line. */

const JOINERS = /[\u200c\u200d]/u; // emoji and some scripts need them
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Zl}\p{Zp}]/gu;
export const REPLACED = '\ufffd';

/** A name in which what cannot be seen is marked. */
export function readable(name: string): string {
  return name.replace(INVISIBLE, found =>
    JOINERS.test(found) ? found : REPLACED
  );
}

/** The same for a text of several lines. */
export function readableLines(text: string): string {
  return text
    .split('\n')
    .map(line => readable(line.replace(/\t/g, '    ')))
    .join('\n');
}

/** Names to show for those of a folder, each another one, because Lab knows files by their names. */
export function shownNames(names: string[]): string[] {
  const taken = new Set(names.filter(name => readable(name) === name));
  const seen = new Set<string>();
  return names.map(name => {
    let shown = readable(name);
    const isPlain = shown === name && !seen.has(name);
    for (let number = 2; !isPlain && (taken.has(shown) || seen.has(shown));) {
      shown = `${readable(name)} (${number++})`;
    }
    seen.add(shown);
    return shown;
  });
}

/** By which keys the server knows the files whose names are shown differently, or are no text. */
export class Keys {
  /** Note down the key of a path that is shown for a name, if nobody could tell it from the path. */
  learn(path: string, name: string, key: string): void {
    const isPlain = path.slice(path.lastIndexOf('/') + 1) === name;
    if (isPlain && !name.includes(REPLACED)) {
      this.known.delete(path);
    } else {
      this.known.set(path, key);
    }
  }

  /** The key of a path: its own, or that of its folder and its name. */
  of(path: string): string {
    const known = this.known.get(path);
    const slash = path.lastIndexOf('/');
    if (known !== undefined || slash < 0) {
      return known ?? encodeURIComponent(path);
    }
    const above = this.of(path.slice(0, slash));
    return `${above}/${encodeURIComponent(path.slice(slash + 1))}`;
  }

  private readonly known = new Map<string, string>();
}

/** The first of a name, "name-Copy1", "name-Copy2" … that is not refused as taken. */
export async function withFreeName<T>(
  name: string,
  numbered: (stem: string, number: number) => string,
  make: (name: string) => Promise<T>,
  isTaken: (error: unknown) => boolean
): Promise<T> {
  const dot = name.lastIndexOf('.');
  const stem = dot > 0 ? name.slice(0, dot) : name;
  const ending = dot > 0 ? name.slice(dot) : '';
  for (let number = 0; ; number++) {
    try {
      return await make(
        number ? `${numbered(stem, number)}${ending}` : `${stem}${ending}`
      );
    } catch (error) {
      if (!isTaken(error) || number >= 1000) {
        throw error;
      }
    }
  }
}
