// Floods an API until stdin closes, then prints counts. It sends 64 KiB requests with costly bodies, without a key,
// with the given key and with an unknown one, opens slow connections and sends giant headers.
import { connect } from 'node:net'
import { Agent, request } from 'undici'

const { address, key: noisyKey, requestsPerSecond } = JSON.parse(process.argv[2])
const { hostname, port } = new URL(address)
const SLOW_MAX = 300
const keys = [undefined, noisyKey, `symphony_${'x'.repeat(60)}`]
const bodies = [
  instruction(`{"a":"${'x'.repeat(65_000)}"}`),
  instruction(`{"a":${'['.repeat(32_000)}${']'.repeat(32_000)}}`),
  instruction(`{"a":${'9'.repeat(65_000)}}`),
  instruction(`{"a":[${'1e400,'.repeat(10_000)}1]}`),
  `{"instructions":[${'{},'.repeat(21_000)}{}]}`,
]
const report = { sent: 0, refused: 0, serverErrors: 0, slowConnections: 0 }
const agent = new Agent({ connections: 64 })
const slow = new Set()

const timers = [setInterval(sendSome, 20), setInterval(sendSlowly, 50)]
process.stdin.resume()
process.stdin.once('end', () => {
  for (const timer of timers) clearInterval(timer)
  process.stdout.write(JSON.stringify(report), () => process.exit(0))
})

function instruction(payload) {
  return `{"instructionId":"f","participantId":"f","railType":"r","payload":${payload}}`
}

function sendSome() {
  for (let one = 0; one < requestsPerSecond / 50; one += 1) void send()
}

async function send() {
  const number = report.sent
  report.sent += 1
  const key = keys[number % keys.length]
  try {
    const { statusCode, body } = await request(`${address}/v1/instructions`, {
      dispatcher: agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': 'f',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: bodies[number % bodies.length],
    })
    await body.dump()
    if (statusCode >= 500) report.serverErrors += 1
    else if (statusCode >= 400) report.refused += 1
  } catch {
    report.refused += 1
  }
}

/**
 * Sends one byte on each open connection, and opens another one while fewer than SLOW_MAX are open. Every tenth
 * connection starts with a header of 1 MB.
 */
function sendSlowly() {
  for (const socket of slow) socket.write('x')
  if (slow.size >= SLOW_MAX) return
  report.slowConnections += 1
  const socket = connect(Number(port), hostname)
  const isGiant = report.slowConnections % 10 === 0
  socket.write(`POST /v1/instructions HTTP/1.1\r\nHost: x\r\nX-Slow: ${isGiant ? 'x'.repeat(1_000_000) : ''}`)
  slow.add(socket)
  socket.on('error', () => {})
  socket.once('close', () => slow.delete(socket))
  socket.resume()
}
