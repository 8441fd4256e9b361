/**
 * Helpers for tests of an application that uses Symphony. No other module imports them.
 *
 * A test has a Symphony with its own database (`withTestSymphony`: a clone of a deployed template, dropped at the end)
 * and a rail with scripted answers that records payments (`memoryRail`). `drain` runs the worker until nothing is due;
 * `advance` moves time. Nothing is mocked: the SQL functions are the real ones.
 *
 * All databases of a server share its clock, so time is moved by changing rows. The statement that changes them
 * bypasses Symphony's functions. It therefore works only in databases with the mark of this module.
 */
export { memoryRail } from './memoryRail.js'
export type { MemoryPayment, MemoryRail, MemoryRailOptions, ScriptedAnswer } from './memoryRail.js'
export { TestClock } from './TestClock.js'
export { createTestSymphony, NotATestDatabaseError, TestSymphony, withTestSymphony } from './TestSymphony.js'
export type { DrainOptions, TestSymphonyOptions } from './TestSymphony.js'
export { startTestServer } from './startTestServer.js'
export type { TestServer } from './startTestServer.js'
