/**
 * For the tests of an application that uses Symphony; nothing in production needs it, and no other module imports it.
 *
 * A test has a database of its own (`withTestDatabase`: a clone of a deployed template, dropped at the end), a rail of its own
 * (`memoryRail`, which answers as it is told and remembers what it paid), and says when the work is done (`drain`) and what
 * time it is (`database.advance`, `TestClock`). No mocks: the functions of the database are the real ones.
 *
 * Time is moved by moving rows, because the clock of the server belongs to everybody. That is a write of our tables past
 * their functions, so it works in databases made here and nowhere else; their mark is asked for in the same statement.
 */
export { drain } from './drain.js'
export type { DrainOptions } from './drain.js'
export { memoryRail } from './memoryRail.js'
export type { MemoryPayment, MemoryRail, MemoryRailOptions, ScriptedAnswer } from './memoryRail.js'
export { TestClock } from './TestClock.js'
export { createTestDatabase, NotATestDatabaseError, TestDatabase, withTestDatabase } from './TestDatabase.js'
export type { TestDatabaseOptions } from './TestDatabase.js'
export { startTestServer } from './startTestServer.js'
export type { TestServer } from './startTestServer.js'
