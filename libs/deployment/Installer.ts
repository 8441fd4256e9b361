import { randomBytes } from 'node:crypto'
import type { LoginDatabase, Transaction } from '../db/index.js'
import { readCatalog } from './catalog.js'
import { asScript, becomeRole, dropFunctions, dropViews, type Step } from './db.js'
import { findOutdated } from './compareCatalogs.js'
import { loginStatement, scramVerifier } from './logins.js'
import { readManifest } from './manifest.js'
import type { ResolvedDeployOptions } from './options.js'
import {
  closingSteps,
  fileSteps,
  type Login,
  needsOwnerGrant,
  openingSteps,
  regrantSteps,
  roleSteps,
  runSteps,
} from './plan.js'
import {
  databaseNotDedicatedError,
  isRestoredWithoutRoles,
  legacyObjectsError,
  loginMismatchError,
  newerDatabaseError,
  ownerNotRevokedError,
  restoredWithoutRolesError,
  serverIsStandbyError,
  foreignObjectsError,
  tablesDifferError,
} from './deploymentErrors.js'
import {
  isDatabaseDedicated,
  mayActAsOwner,
  readDeploymentRecord,
  readForeignObjects,
  readLoginState,
  readServerFacts,
  type ServerFacts,
} from './reads.js'
import { isNewer, readRelease, type Release } from './release.js'
import { requireRights } from './rights.js'
import { OWNER_ROLE } from './roles.js'
import { inOrder, readSchemaFiles, type SchemaFiles } from './schemaFiles.js'

export interface DeployReport {
  readonly outcome: 'deployed' | 'unchanged' | 'roles' | 'planned'
  readonly schema: string
  readonly release: string
  readonly logins: readonly DeployedLogin[]
  /** SQL of a dry run; undefined otherwise. */
  readonly sql: string | undefined
}

export interface DeployedLogin {
  readonly name: string
  readonly created: boolean
  /** Generated password of a login that this call created; undefined if the caller gave one. It is stored nowhere. */
  readonly password: string | undefined
}

const PASSWORD_BYTES = 24

interface Decision {
  readonly outcome: Exclude<DeployReport['outcome'], 'planned'>
  readonly steps: readonly Step[]
}

/** One deployment: reads the server, decides under the lock of the schema, runs the steps and verifies their effect. */
export class Installer {
  readonly #database: LoginDatabase
  readonly #options: ResolvedDeployOptions
  readonly #files: SchemaFiles = readSchemaFiles()
  readonly #release: Release = readRelease()

  constructor(database: LoginDatabase, options: ResolvedDeployOptions) {
    this.#database = database
    this.#options = options
  }

  /** Runs one attempt. Reads the server first, and then makes all changes in one transaction. */
  async install(): Promise<DeployReport> {
    const facts = await this.#database.transaction('READ ONLY', (tx) => this.#readFacts(tx))
    const passwords = this.#passwords(facts)
    const logins = this.#logins((name) => mapDefined(passwords.get(name), scramVerifier))
    return this.#database.transaction('READ WRITE', async (tx) => {
      const outcome = await this.#run(tx, facts, logins)
      await this.#verify(tx, facts, logins)
      return {
        ...this.#header(),
        outcome,
        logins: this.#options.createLogins.map(({ name, password }) => ({
          name,
          created: passwords.has(name),
          // Returns only a generated password, not one that the caller gave.
          password: password === undefined ? passwords.get(name) : undefined,
        })),
        sql: undefined,
      }
    })
  }

  async #run(tx: Transaction, facts: ServerFacts, logins: readonly Login[]): Promise<Decision['outcome']> {
    if (this.#options.rolesOnly) {
      await runSteps(tx, roleSteps(facts, this.#files, logins))
      return 'roles'
    }
    await runSteps(tx, this.#openingSteps(facts))
    const { outcome, steps } = await this.#decide(tx, facts)
    await runSteps(tx, steps)
    await runSteps(tx, this.#closingSteps(facts, logins))
    return outcome
  }

  /** Returns the SQL that a deployment would run. The plan covers only what this login can read on the server. */
  async plan(): Promise<DeployReport> {
    return this.#database.transaction('READ ONLY', async (tx) => {
      const facts = await this.#readFacts(tx)
      const logins = this.#logins((name) => (facts.existingLogins.includes(name) ? undefined : null))
      const all = this.#options.rolesOnly
        ? roleSteps(facts, this.#files, logins)
        : await this.#planned(tx, facts, logins)
      return { ...this.#header(), outcome: 'planned', logins: [], sql: asScript(all) }
    })
  }

  async #planned(tx: Transaction, facts: ServerFacts, logins: readonly Login[]): Promise<readonly Step[]> {
    if (facts.mayActAsOwner && !facts.missingRoles.includes(OWNER_ROLE)) await tx.query(becomeRole(OWNER_ROLE))
    const { steps } = await this.#decide(tx, facts)
    return [...this.#openingSteps(facts), ...steps, ...this.#closingSteps(facts, logins)]
  }

  #header(): Pick<DeployReport, 'schema' | 'release'> {
    return { schema: this.#options.schema, release: this.#release.version }
  }

  async #readFacts(tx: Transaction): Promise<ServerFacts> {
    const { schema, rolesOnly, dedicatedDatabase, createLogins } = this.#options
    const facts = await readServerFacts(
      tx,
      schema,
      createLogins.map(({ name }) => name),
    )
    if (facts.isStandby) throw serverIsStandbyError(facts.database)
    requireRights(facts, { schema, rolesOnly, dedicatedDatabase, logins: createLogins.map(loginStatement) })
    return facts
  }

  /**
   * Decides which files and statements to run. During a deployment this transaction holds the lock of the schema, so no
   * other deployment can change the facts before COMMIT.
   */
  async #decide(tx: Transaction, facts: ServerFacts): Promise<Decision> {
    const { schema, dropLegacy, reapply } = this.#options
    const objects = await readForeignObjects(tx, schema)
    const legacy = objects.filter(({ isLegacy }) => isLegacy)
    const foreign = objects.filter(({ isLegacy }) => !isLegacy)
    if (legacy.length > 0 && !dropLegacy) throw legacyObjectsError(schema, legacy)
    if (isRestoredWithoutRoles(foreign)) throw restoredWithoutRolesError(schema)
    if (foreign.length > 0) throw foreignObjectsError(schema, foreign)
    const record = await readDeploymentRecord(tx, schema)
    const checksums = typeof record === 'object' ? record.checksums : new Map<string, string>()
    if (typeof record === 'object' && isNewer(record, this.#release))
      throw newerDatabaseError(schema, record, this.#release)
    const altered = this.#files.tables.filter(({ name, sha256 }) => (checksums.get(name) ?? sha256) !== sha256)
    if (altered.length > 0) throw tablesDifferError(schema, altered)
    if (legacy.length === 0 && !reapply && this.#isInForce(checksums)) {
      return { outcome: 'unchanged', steps: regrantSteps(this.#files) }
    }
    const mayHaveOutdated = facts.schemaOwner !== undefined && record !== 'unreadable'
    return {
      outcome: 'deployed',
      steps: fileSteps(this.#files, this.#release, {
        dropLegacy: legacy.length > 0,
        tables: this.#files.tables.filter(({ name }) => reapply || !checksums.has(name)),
        dropOutdated: mayHaveOutdated ? await this.#dropOutdated(tx, facts.version) : '',
      }),
    }
  }

  async #dropOutdated(tx: Transaction, version: number): Promise<string> {
    const { functions, views } = findOutdated(await readCatalog(tx, tx.schema), readManifest(version))
    // Drops views first, because they may depend on the functions.
    return [dropViews(views), await dropFunctions(tx, tx.schema, functions)].filter((sql) => sql !== '').join('\n')
  }

  #isInForce(checksums: ReadonlyMap<string, string>): boolean {
    const files = inOrder(this.#files)
    return checksums.size === files.length && files.every(({ name, sha256 }) => checksums.get(name) === sha256)
  }

  #openingSteps(facts: ServerFacts): readonly Step[] {
    return openingSteps(facts, this.#options.schema, this.#files)
  }

  #closingSteps(facts: ServerFacts, logins: readonly Login[]): readonly Step[] {
    return closingSteps(facts, { dedicatedDatabase: this.#options.dedicatedDatabase, logins })
  }

  /** Returns passwords for the logins that do not exist yet. */
  #passwords({ existingLogins }: ServerFacts): ReadonlyMap<string, string> {
    const newOnes = this.#options.createLogins.filter(({ name }) => !existingLogins.includes(name))
    return new Map(
      newOnes.map(({ name, password = randomBytes(PASSWORD_BYTES).toString('base64url') }) => [name, password]),
    )
  }

  #logins(secretOf: (name: string) => Login['secret']): readonly Login[] {
    return this.#options.createLogins.map((request) => ({ ...loginStatement(request), secret: secretOf(request.name) }))
  }

  /**
   * Verifies the effect of the steps. PostgreSQL only warns about a REVOKE without effect, and the deployment does not
   * change the attributes of a login that exists.
   */
  async #verify(tx: Transaction, facts: ServerFacts, logins: readonly Login[]): Promise<void> {
    if (!this.#options.rolesOnly && needsOwnerGrant(facts) && (await mayActAsOwner(tx, this.#options.schema)))
      throw ownerNotRevokedError(facts.login)
    if (this.#options.dedicatedDatabase && !(await isDatabaseDedicated(tx)))
      throw databaseNotDedicatedError(facts.database)
    for (const login of logins) {
      const { canLogIn, isMember, inherits } = await readLoginState(tx, login)
      if (!canLogIn || !isMember || inherits !== login.inherits) throw loginMismatchError(login)
    }
  }
}

function mapDefined<A, B>(value: A | undefined, map: (value: A) => B): B | undefined {
  return value === undefined ? undefined : map(value)
}
