// SPDX-License-Identifier: GPL-2.0-only
// GET /w?n=N: N stored documents parsed, one changed, sorted, and the first 50 written, all in the
// one event loop.
'use strict';
const http = require('http');
const store = [];
for (let id = 0; id < 5000; id++) {
  const tags = Array.from({ length: 8 }, (_, i) => `tag${(id * 31 + i * 7) % 100}`);
  store.push(JSON.stringify({ id, name: `item-${id}`, tags, price: (id * 7919 % 10007) / 100 }));
}
const server = http.createServer((request, response) => {
  const n = Number(new URL(request.url, 'http://h').searchParams.get('n'));
  const items = [];
  for (let i = 0; i < n; i++) items.push(JSON.parse(store[(n * 7919 + i * 31) % store.length]));
  items.sort((a, b) => a.price - b.price);
  items[0].price += 1;
  store[items[0].id] = JSON.stringify(items[0]);
  const body = JSON.stringify(items.slice(0, 50));
  response.writeHead(200, { 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
});
server.keepAliveTimeout = 600000;
server.listen(Number(process.argv[2]), '127.0.0.1', 256);
