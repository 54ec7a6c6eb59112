// Sends bodies that are not wanted, one after another, and expects an answer to each.
//
// Usage: node client.mjs URL STATUS REQUESTS SIZE...

import http2 from 'node:http2';

const [url, status, count, ...sizes] = process.argv.slice(2);
const { origin, pathname } = new URL(url);
const lost = [];

function post(session, size) {
  return new Promise((resolve) => {
    const stream = session.request({ ':method': 'POST', ':path': pathname });
    let got = 'no answer';
    let body = '';
    stream.setEncoding('utf8');
    stream.on('response', (headers) => { got = headers[':status']; });
    stream.on('data', (text) => { body += text; });
    stream.on('error', (error) => { got = error.message; });
    stream.on('close', () => resolve(`${got} ${body.length > 0}`));
    stream.end(Buffer.alloc(size, 'x'));
  });
}

let session = http2.connect(origin, { rejectUnauthorized: false });
for (let turn = 0; turn < Number(count); turn += 1) {
  if (session.closed || session.destroyed) {
    session = http2.connect(origin, { rejectUnauthorized: false });
  }
  const size = Number(sizes[turn % sizes.length]);
  const got = await post(session, size);
  if (got !== `${status} true`) lost.push(`${size} bytes: ${got}`);
}
session.close();
console.log([`${count - lost.length} of ${count}`, ...lost.slice(0, 5)].join('\n'));
