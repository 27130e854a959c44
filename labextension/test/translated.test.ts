import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import ts from 'typescript';

/** Texts for people have two words at least, or stand in a place where only texts do. */
const WORDS = /\p{L}{2,}[^\p{L}]* \p{L}{2,}/u;
const SHOWN = ['title', 'aria-label', 'placeholder', 'alt', 'label'];
/** What is for developers, or no text: names of classes and the shapes of icons. */
const NO_TEXT = ['className', 'description', 'svgstr', 'icon'];

/** The texts of a file that a translator would not see. */
function untranslated(path: string, code: string): string[] {
  const source = ts.createSourceFile(path, code, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (isTranslation(node) || isNoText(node) || isProtocol(node)) {
      return;
    }
    const text = textOf(node);
    if (text !== null && (WORDS.test(text) || isShown(node, text))) {
      found.push(text.trim());
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isTranslation(node: ts.Node): boolean {
  return (
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    ['__', '_n', '_p', '_np'].includes(node.expression.name.text)
  );
}

function isNoText(node: ts.Node): boolean {
  const name =
    ts.isJsxAttribute(node) || ts.isPropertyAssignment(node)
      ? node.name.getText()
      : ts.isCallExpression(node)
        ? node.expression.getText()
        : '';
  return NO_TEXT.includes(name);
}

/** A word of the protocol, which is compared or has a name in capitals. */
function isProtocol(node: ts.Node): boolean {
  const { parent } = node;
  return (
    ts.isTypeNode(node) ||
    (ts.isStringLiteral(node) &&
      (ts.isCaseClause(parent) ||
        (ts.isBinaryExpression(parent) &&
          parent.operatorToken.kind !== ts.SyntaxKind.PlusToken) ||
        (ts.isVariableDeclaration(parent) &&
          /^[A-Z_]+$/.test(parent.name.getText()))))
  );
}

function textOf(node: ts.Node): string | null {
  if (ts.isJsxText(node) || ts.isStringLiteralLike(node)) {
    return node.text;
  }
  return ts.isTemplateExpression(node)
    ? [node.head.text, ...node.templateSpans.map(s => s.literal.text)].join('…')
    : null;
}

function isShown(node: ts.Node, text: string): boolean {
  const { parent } = node;
  const isWord = /\p{L}/u.test(text);
  return (
    isWord &&
    (ts.isJsxText(node) ||
      (ts.isJsxAttribute(parent) && SHOWN.includes(parent.name.getText())))
  );
}

/** Words of the protocol. */
const EXCEPTIONS = ['pages.ts'];
const FILES = readdirSync('src').filter(name => !EXCEPTIONS.includes(name));

test.each(FILES)('%s says nothing untranslated', name => {
  expect(untranslated(name, readFileSync(`src/${name}`, 'utf8'))).toEqual([]);
});

test('it finds what is not translated', () => {
  const code = `
    throw new Error('No such file');
    const view = (
      <div className="one two" title="Close it" data-state="now">
        Undo
        <button aria-label="Close">{trans.__('It is translated')}</button>
        {\`\${name} was not found\`}
      </div>
    );`;
  expect(untranslated('view.tsx', code)).toEqual([
    'No such file',
    'Close it',
    'Undo',
    'Close',
    '… was not found'
  ]);
});
