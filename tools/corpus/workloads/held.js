// Loads npm with all that it has, and makes an index of the words of its sources.
const fs = require('fs'), path = require('path');
const base = path.join(path.dirname(process.execPath), '../lib/node_modules/npm');
const loaded = [], index = Object.create(null), lines = [], sums = [];
function walk(dir) {
  for (const e of fs.readdirSync(dir, { withFileTypes: true })) {
    const p = path.join(dir, e.name);
    if (e.isDirectory()) walk(p);
    else if (e.name.endsWith('.js') || e.name.endsWith('.json')) {
      const text = fs.readFileSync(p, 'utf8');
      text.split('\n').forEach((line, n) => {
        lines.push(line);
        for (const w of line.match(/[A-Za-z_]\w+/g) || []) (index[w] = index[w] || []).push({ file: p, line: n });
      });
      if (!/\/(bin|test|cli)/.test(p)) try { loaded.push(require(p)); } catch (e) { sums.push(String(e)); }
    }
  }
}
const exit = process.exit; process.exit = () => {};
walk(base);
for (const w of Object.keys(index)) sums.push(index[w].length * 1.5, w.toUpperCase());
setTimeout(() => exit(0), 1e6);
