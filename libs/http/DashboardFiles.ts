import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyReply, FastifyRequest } from 'fastify'

interface DashboardFile {
  readonly content: Buffer
  readonly type: string
  readonly etag: string
  /** True if the name contains a hash of the content, so that browsers may cache the file for ever. */
  readonly immutable: boolean
}

/** Files of the dashboard, read once at the start. Files created later are not served. */
export class DashboardFiles {
  readonly #files: ReadonlyMap<string, DashboardFile>

  /** Throws if the folder cannot be read. */
  constructor(folder: string) {
    this.#files = new Map(
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .map((name) => join(folder, name))
        .filter((path) => statSync(path).isFile())
        .map((path) => [`/${relative(folder, path).split(sep).join('/')}`, fileAt(path)]),
    )
  }

  /** Finds a file by the path of a URL. `/` finds index.html. */
  find(path: string): DashboardFile | undefined {
    return this.#files.get(path === '/' ? INDEX : path)
  }

  /**
   * Returns index.html, the only page of the dashboard. The server also sends it for unknown paths that a browser
   * opens.
   */
  get page(): DashboardFile | undefined {
    return this.#files.get(INDEX)
  }
}

function fileAt(path: string): DashboardFile {
  const content = readFileSync(path)
  const hash = createHash('sha256').update(content).digest('base64url')
  return {
    content,
    type: TYPES[extname(path)] ?? 'application/octet-stream',
    etag: `"${hash.slice(0, 27)}"`,
    immutable: /[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$/.test(path) && path.includes(`${sep}assets${sep}`),
  }
}

const INDEX = '/index.html'
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
  '.map': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
}

/**
 * Returns the file at the path of a GET or HEAD request. Returns index.html if a browser opens another path outside
 * /v1, else undefined.
 */
export function fileFor(files: DashboardFiles, { method, url, headers }: FastifyRequest): DashboardFile | undefined {
  if (method !== 'GET' && method !== 'HEAD') return undefined
  const path = url.split('?', 1)[0] ?? url
  const isPage = headers.accept?.includes('text/html') === true && !path.startsWith('/v1/') && path !== '/v1'
  return files.find(path) ?? (isPage ? files.page : undefined)
}

export function sendFile(file: DashboardFile, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { content, type, etag, immutable } = file
  void reply
    .header('etag', etag)
    .header('cache-control', immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
  if (headers['if-none-match'] === etag) return reply.code(304).send()
  return reply.code(200).type(type).send(content)
}

/**
 * Returns the folder of the built dashboard, beside the compiled program or in a checkout; undefined if there is none.
 */
export function dashboardFolder(): string | undefined {
  const places = ['../../dashboard/', '../../dist/dashboard/'].map((place) => new URL(place, import.meta.url))
  const built = places.find((place) => existsSync(new URL('index.html', place)))
  return built === undefined ? undefined : fileURLToPath(built)
}
