import { InvalidArgumentError } from './AppError.js'
import { nearestSpelling } from './nearestSpelling.js'

/** A misspelt option would silently be its default, which is the worst way to find out. `name` puts the key into context. */
export function refuseUnknownKeys(given: object, known: readonly string[], name: (key: string) => string): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue
    const meant = nearestSpelling(key, known)
    throw new InvalidArgumentError(
      name(JSON.stringify(key)),
      meant === undefined ? `unknown; expected one of ${known.join(', ')}` : `unknown; did you mean ${meant}?`,
    )
  }
}
