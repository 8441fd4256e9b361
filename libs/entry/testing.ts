/**
 * Helpers for tests of an application: a Symphony with its own database, scripted rails, and a clock that the test
 * moves.
 */
export { createTestSymphony, memoryRail, startTestServer, TestClock, withTestSymphony } from '../testing/index.js'
export type {
  MemoryRail,
  MemoryRailOptions,
  ScriptedAnswer,
  TestServer,
  TestSymphony,
  TestSymphonyOptions,
} from '../testing/index.js'
export { RailContractError, runRailContract } from '../rails/index.js'
export type { RailContractOptions, RuleResult } from '../rails/index.js'
