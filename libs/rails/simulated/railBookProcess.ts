import { once } from 'node:events'
import { serveRailBook, type BookServerOptions } from './bookServer.js'

/*
 * Program of `startRailBook`. Prints its URL, or its error, as one line of JSON, and serves until its standard input
 * closes.
 */

const options: BookServerOptions = JSON.parse(process.argv[2] ?? '{}')
try {
  const server = await serveRailBook(options)
  process.stdout.write(`${JSON.stringify({ url: server.url })}\n`)
  process.stdin.resume()
  await once(process.stdin, 'close')
  await server.close()
} catch (error) {
  process.stdout.write(`${JSON.stringify({ reason: String(error) })}\n`)
}
