import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Where the dashboard was built: beside the compiled program, or where a checkout puts it. Undefined: it was not. */
export function dashboardFolder(): string | undefined {
  const places = ['../../dashboard/', '../../dist/dashboard/'].map((place) => new URL(place, import.meta.url))
  const built = places.find((place) => existsSync(new URL('index.html', place)))
  return built === undefined ? undefined : fileURLToPath(built)
}
