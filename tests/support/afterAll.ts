import { afterAll } from 'vitest'

/**
 * Closes a fixture after the tests of its file. Hooks run in reverse order, so a database is dropped after its users.
 */
export function closeAfterAll<T extends { close(): Promise<unknown> }>(fixture: T): T {
  afterAll(() => fixture.close())
  return fixture
}
