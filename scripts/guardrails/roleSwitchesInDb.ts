import type { Guardrail } from './guardrail.js'
import { isTestFile, isTypeScript } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { child, list, nodesNamed, text, type SqlNode } from './sqlParser.js'
import { tokensOf } from './typescriptTokens.js'

/** Only libs/db and the installer switch roles, so that the role of every statement is known. */
export const roleSwitchesInDb: Guardrail = {
  name: 'roles are switched only by libs/db and by the installer in libs/deployment/db.ts',
  check: (repository) =>
    repository
      .filter((file) => !isTestFile(file.path) && !ROLE_SWITCHERS.test(file.path))
      .flatMap((file) => {
        const switches = sqlOf(file).fragments.filter(({ node }) => switchesRole(node))
        const startup = isTypeScript(file) ? tokensOf(file).filter((token) => ROLE_OPTION.test(token.text)) : []
        return [...switches, ...startup].map(({ line }) => ({
          file: file.path,
          line,
          message: 'switches the role; only libs/db may, and libs/deployment/db.ts while it installs',
        }))
      }),
}

const ROLE_SWITCHERS = /^libs\/(?:db\/|deployment\/db\.ts$)/

/** Role set by a startup parameter of a connection. */
const ROLE_OPTION = /-c\s*(?:role|session_authorization)\s*=/

function switchesRole(node: SqlNode): boolean {
  return (
    nodesNamed(node, 'VariableSetStmt').some((set) => isRoleSetting(text(set, 'name'))) ||
    nodesNamed(node, 'FuncCall').some(
      (call) =>
        text(child(list(call, 'funcname').at(-1) ?? {}, 'String'), 'sval') === 'set_config' &&
        isRoleSetting(text(child(list(call, 'args')[0] ?? {}, 'A_Const', 'sval'), 'sval')),
    )
  )
}

function isRoleSetting(name: string | undefined): boolean {
  return name === 'role' || name === 'session_authorization'
}
