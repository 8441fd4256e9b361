/**
 * The shape of the code, checked: each rule is a file, decided from the text of the repository alone, and proven in
 * tests/contract by a planted violation. SQL is parsed by PostgreSQL's own parser, TypeScript by a small tokenizer.
 */
import { dashboardShowsText } from './dashboardShowsText.js'
import { dispatchingIsNeverStored } from './dispatchingIsNeverStored.js'
import { driverInDb } from './driverInDb.js'
import { everyTestRuns } from './everyTestRuns.js'
import { functionsSayEverything } from './functionsSayEverything.js'
import { grantsOnOnePage } from './grantsOnOnePage.js'
import type { Guardrail } from './guardrail.js'
import { importsHaveNoCycle } from './importsHaveNoCycle.js'
import { noMachinePaths } from './noMachinePaths.js'
import { pendingLeavesByCompletion } from './pendingLeavesByCompletion.js'
import { roleSwitchesInDb } from './roleSwitchesInDb.js'
import { roomsKeepDirection } from './roomsKeepDirection.js'
import { sqlInItsRooms } from './sqlInItsRooms.js'
import { sqlstatesAgree } from './sqlstatesAgree.js'
import { testPowersStayInTests } from './testPowersStayInTests.js'
import { writesInSchema } from './writesInSchema.js'

export type { Finding, Guardrail } from './guardrail.js'
export { readRepository } from './repository.js'
export type { Repository, SourceFile } from './repository.js'

export const GUARDRAILS: readonly Guardrail[] = [
  sqlInItsRooms,
  driverInDb,
  roleSwitchesInDb,
  writesInSchema,
  dispatchingIsNeverStored,
  pendingLeavesByCompletion,
  grantsOnOnePage,
  functionsSayEverything,
  sqlstatesAgree,
  roomsKeepDirection,
  importsHaveNoCycle,
  testPowersStayInTests,
  dashboardShowsText,
  everyTestRuns,
  noMachinePaths,
]
