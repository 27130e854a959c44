import { DataModel } from '@lumino/datagrid';
import type { Change, Pages } from './pages';

/** Pages as Lab's data grid reads them. Above each column are its name and its type. */
export class GridModel extends DataModel {
  constructor(private readonly pages: Pages) {
    super();
  }

  rowCount(region: DataModel.RowRegion): number {
    return region === 'body' ? this.pages.rows : 2;
  }

  columnCount(region: DataModel.ColumnRegion): number {
    return region === 'body'
      ? this.pages.columns
      : (this.pages.newest?.levels.length ?? 1);
  }

  data(region: DataModel.CellRegion, row: number, column: number): unknown {
    switch (region) {
      case 'body':
        return this.pages.cell(row, column);
      case 'row-header':
        return this.pages.label(row, column);
      case 'column-header': {
        const heading = this.pages.heading(column);
        return row === 0 ? heading?.name : heading && [heading.type];
      }
      default:
        return row === 0 ? this.pages.newest?.levels[column] : '';
    }
  }

  /** Tell the grid what has changed. */
  show(change: Change): void {
    if (change.kind === 'size') {
      this.emitChanged({ type: 'model-reset' });
    } else if (change.kind === 'page') {
      // All of it: what is in sight beside the page may be of an earlier moment, and is asked for as it is painted.
      const rowSpan = this.pages.rows;
      const columnSpan = this.pages.columns;
      const levels = this.columnCount('row-header');
      this.told('body', rowSpan, columnSpan);
      this.told('row-header', rowSpan, levels);
      this.told('column-header', 2, columnSpan);
    }
  }

  private told(
    region: DataModel.CellRegion,
    rowSpan: number,
    columnSpan: number
  ): void {
    if (rowSpan && columnSpan) {
      this.emitChanged({
        type: 'cells-changed',
        region,
        row: 0,
        column: 0,
        rowSpan,
        columnSpan
      });
    }
  }
}
