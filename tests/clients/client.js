// SPDX-License-Identifier: BSD-3-Clause
// Reads a directory in the ways node has: client.js DIRECTORY. Prints what it found, for tests/clients/programs.sh.
'use strict';
const fs = require('fs'), path = require('path'), crypto = require('crypto'), { spawnSync } = require('child_process');
const top = process.argv[2], blob = path.join(top, 'blob');
const sum = (b) => crypto.createHash('md5').update(b).digest('hex');
const attempt = (what, f) => {
  try {
    console.log(what, f());
  } catch (e) {
    console.log(what, e.code, e.message);
  }
};
const walk = (d) => fs.readdirSync(d, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  .flatMap((e) => (e.name.startsWith('repo') ? [] : e.isDirectory() ? walk(path.join(d, e.name)) : [path.join(d, e.name)]));

console.log(sum(fs.readFileSync(blob)), fs.readFileSync(path.join(top, 'src/main.c'), 'utf8').length);
console.log(walk(top).join('\n'));
for (const f of walk(top)) {
  const s = fs.statSync(f);
  console.log(f, s.size, s.mode, s.mtimeMs, s.nlink, s.uid, s.isFile());
}
const fd = fs.openSync(blob, 'r'), b = Buffer.alloc(1000);
console.log(fs.readSync(fd, b, 0, 1000, 5000), sum(b), fs.readSync(fd, b, 0, 10, null), fs.fstatSync(fd).size);
fs.closeSync(fd);
console.log(fs.existsSync(blob), fs.existsSync(blob + 'x'), fs.realpathSync(path.join(top, 'src/../lib')));
console.log(fs.realpathSync.native(path.join(top, 'src')), fs.readdirSync(top).sort().join());
fs.copyFileSync(blob, 'copy');
fs.cpSync(path.join(top, 'include'), 'include', { recursive: true });
attempt('write', () => fs.writeFileSync(path.join(top, 'new'), 'x'));
attempt('append', () => fs.appendFileSync(blob, 'x'));
attempt('unlink', () => fs.unlinkSync(blob));
attempt('mkdir', () => fs.mkdirSync(path.join(top, 'new')));
attempt('none', () => fs.readFileSync(path.join(top, 'none')));
attempt('access', () => fs.accessSync(blob, fs.constants.R_OK));
attempt('access for writing', () => fs.accessSync(blob, fs.constants.W_OK));
console.log(spawnSync('cat', ['src/main.c'], { cwd: top }).stdout.length);
console.log(spawnSync('wc', ['-c'], { stdio: [fs.openSync(blob), 'pipe', 2] }).stdout.toString());
process.chdir(path.join(top, 'src'));
console.log(process.cwd(), fs.readFileSync('main.c').length);
(async () => {
  let n = 0;
  for await (const chunk of fs.createReadStream(blob, { start: 100, end: 500000 })) n += chunk.length;
  console.log(n, (await fs.promises.readFile(blob)).length, (await fs.promises.readdir(top)).length);
  console.log((await fs.promises.stat(blob)).size, (await fs.promises.opendir(top).then((d) => d.close().then(() => 1))));
  const all = await Promise.all(walk(top).map((f) => fs.promises.readFile(f)));
  console.log(sum(Buffer.concat(all)));
})();
