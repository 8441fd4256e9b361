/**
 * For tests of an application that uses Symphony. Production code needs none of it, and no other module imports it.
 *
 * A test has a Symphony with a database of its own (`withTestSymphony`: a clone of a deployed template, dropped at the end) and a
 * rail of its own (`memoryRail`, which gives scripted answers and records payments). `drain` runs the worker until nothing is
 * due; `advance` moves time. Nothing is mocked: the functions of the database are the real ones.
 *
 * Time is moved by moving rows, because all databases of a server share its clock. That writes our tables without their
 * functions, so it works only in databases that carry the mark of this module; the same statement checks it.
 */
export { memoryRail } from './memoryRail.js'
export type { MemoryPayment, MemoryRail, MemoryRailOptions, ScriptedAnswer } from './memoryRail.js'
export { TestClock } from './TestClock.js'
export { createTestSymphony, NotATestDatabaseError, TestSymphony, withTestSymphony } from './TestSymphony.js'
export type { DrainOptions, TestSymphonyOptions } from './TestSymphony.js'
export { startTestServer } from './startTestServer.js'
export type { TestServer } from './startTestServer.js'
