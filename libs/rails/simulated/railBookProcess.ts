import { once } from 'node:events'
import { serveRailBook, type BookServerOptions } from './bookServer.js'

/** The program behind `startRailBook`: serves until its standard input is closed. Its one line of output is its address. */
const options: BookServerOptions = JSON.parse(process.argv[2] ?? '{}')
const server = await serveRailBook(options)
process.stdout.write(`${server.url}\n`)
process.stdin.resume()
await once(process.stdin, 'close')
await server.close()
