/**
 * Rules that the linter cannot express. Each rule is one file, reads only the text of the repository, and is tested
 * with violations in tests/contract. PostgreSQL's parser parses the SQL, and a small tokenizer reads the TypeScript.
 * The linter itself checks imports: module direction, cycles and the driver (.oxlintrc.json, modules.md).
 */
import { dashboardShowsText } from './dashboardShowsText.js'
import { dispatchingIsNeverStored } from './dispatchingIsNeverStored.js'
import { everyTestRuns } from './everyTestRuns.js'
import { exportsAreEntryPoints } from './exportsAreEntryPoints.js'
import { functionsDeclareOptions } from './functionsDeclareOptions.js'
import { grantsOnOnePage } from './grantsOnOnePage.js'
import type { Guardrail } from './guardrail.js'
import { migrationsAddNoEnumValue } from './migrationsAddNoEnumValue.js'
import { noMachinePaths } from './noMachinePaths.js'
import { pendingDeletedByFunctionsOnly } from './pendingDeletedByFunctionsOnly.js'
import { roleSwitchesInDb } from './roleSwitchesInDb.js'
import { sqlInAllowedFiles } from './sqlInAllowedFiles.js'
import { sqlstatesAgree } from './sqlstatesAgree.js'
import { testOnlyCodeStaysInTests } from './testOnlyCodeStaysInTests.js'
import { writesInSchema } from './writesInSchema.js'

export type { Finding, Guardrail } from './guardrail.js'
export { readRepository } from './repository.js'
export type { Repository, SourceFile } from './repository.js'

export const GUARDRAILS: readonly Guardrail[] = [
  sqlInAllowedFiles,
  roleSwitchesInDb,
  writesInSchema,
  dispatchingIsNeverStored,
  pendingDeletedByFunctionsOnly,
  grantsOnOnePage,
  functionsDeclareOptions,
  migrationsAddNoEnumValue,
  sqlstatesAgree,
  exportsAreEntryPoints,
  testOnlyCodeStaysInTests,
  dashboardShowsText,
  everyTestRuns,
  noMachinePaths,
]
