// Keeps records, trees and text.
const fs = require('fs');
class Node { constructor(k, v) { this.key = k; this.value = v; this.left = null; this.right = null; } }
let root = null, records = [], map = new Map(), text = fs.readFileSync(process.execPath, 'latin1').slice(0, 4 << 20);
let seed = 1; const rnd = n => (seed = (seed * 48271) % 2147483647) % n;
function insert(k, v) { let n = new Node(k, v); if (!root) { root = n; return; } let at = root; for (;;) { const side = k < at.key ? 'left' : 'right'; if (!at[side]) { at[side] = n; return; } at = at[side]; } }
for (let i = 0; i < 150000; i++) {
  const r = { id: i, name: 'user' + rnd(100000), score: rnd(1000) / 7, tags: ['a' + rnd(50), 'b' + rnd(50)], when: new Date(1.6e12 + rnd(1e9)), nested: { x: rnd(9), y: null, ok: (i & 1) === 0 } };
  records.push(r); map.set(r.name, r); insert(rnd(1 << 30), r.name);
}
const copy = JSON.parse(JSON.stringify(records.slice(0, 60000)));
setTimeout(() => copy.length, 1e6);
