/** The colours, fonts and widths of a data grid, from Lab's theme. */

import {
  type CellRenderer,
  type DataGrid,
  RendererMap,
  TextRenderer
} from '@lumino/datagrid';
import type { Cell, Page } from './protocol';

const NARROWEST = 56;
const WIDEST = 280;
const PADDING = 20;
const BOLD = 1.2; // a heading's letters are so much wider

/** Whether columns of a type are aligned at their right. */
export function isNumber(type: string): boolean {
  return /^(u?int|float|complex)\d/i.test(type);
}

/** A cell's text; three dots while it is on its way. */
export function textOf(cell: unknown): string {
  const text: unknown = Array.isArray(cell) ? cell[0] : cell;
  return typeof text === 'string' ? text : '…';
}

/** How wide each column of a page is, by its texts. */
export function widths(page: Page, character: number): number[] {
  const longest = (cells: Cell[], least: number) =>
    cells.reduce((most, cell) => Math.max(most, textOf(cell).length), least);
  return page.cells.map((cells, at) =>
    wide(
      longest(
        cells,
        Math.max(BOLD * page.names[at].length, page.types[at].length)
      ),
      character
    )
  );
}

/** How wide the labels of a page's rows are. */
export function labelWidths(page: Page, character: number): number[] {
  return page.labels.map((labels, level) => {
    const texts = [...labels.map(textOf), page.levels[level] ?? ''];
    return wide(Math.max(...texts.map(text => text.length)), character);
  });
}

function wide(characters: number, character: number): number {
  return Math.max(
    NARROWEST,
    Math.min(WIDEST, Math.round(characters * character) + PADDING)
  );
}

/** A colour through which one sees what is below. */
function light(colour: string): string {
  return /^#[0-9a-f]{6}$/i.test(colour)
    ? `${colour}30`
    : 'rgba(33,150,243,0.2)';
}

/** Lab's theme, as it is now. */
export class Looks {
  constructor(private readonly typeOf: (column: number) => string) {
    const style = getComputedStyle(document.body);
    const value = (name: string) => style.getPropertyValue(name).trim();
    this.font = `12px ${value('--jp-code-font-family') || 'monospace'}`;
    this.headFont = `600 12px ${value('--jp-ui-font-family') || 'sans-serif'}`;
    this.text = value('--jp-ui-font-color0');
    this.dim = value('--jp-ui-font-color2');
    const paper = value('--jp-layout-color1');
    const line = value('--jp-border-color2');
    const head = value('--jp-layout-color2');
    const brand = value('--jp-brand-color1');
    this.style = {
      voidColor: value('--jp-layout-color0'),
      backgroundColor: paper,
      gridLineColor: value('--jp-border-color3'),
      headerBackgroundColor: head,
      headerGridLineColor: line,
      selectionFillColor: light(brand),
      selectionBorderColor: brand,
      cursorFillColor: 'transparent',
      cursorBorderColor: brand,
      headerSelectionFillColor: light(brand),
      headerSelectionBorderColor: brand
    };
  }

  readonly style: DataGrid.Style;
  readonly font: string;

  /** How each region is drawn. */
  renderers(): RendererMap {
    const colour = ({ value }: CellRenderer.CellConfig) =>
      typeof value === 'string' ? this.text : this.dim;
    const format = ({ value }: CellRenderer.CellConfig) => textOf(value);
    const side = ({ column }: CellRenderer.CellConfig) =>
      isNumber(this.typeOf(column)) ? 'right' : 'left';
    const body = new TextRenderer({
      font: this.font,
      textColor: colour,
      horizontalAlignment: side,
      elideDirection: 'right',
      format
    });
    const head = new TextRenderer({
      font: ({ row }) => (row === 0 ? this.headFont : this.font),
      textColor: colour,
      horizontalAlignment: side,
      elideDirection: 'right',
      format
    });
    const labels = new TextRenderer({
      font: this.font,
      textColor: this.dim,
      horizontalAlignment: 'right',
      elideDirection: 'right',
      format
    });
    return new RendererMap({
      body,
      'column-header': head,
      'row-header': labels,
      'corner-header': labels
    });
  }

  private readonly headFont: string;
  private readonly text: string;
  private readonly dim: string;
}
