import type { Guardrail } from './guardrail.js'
import { isTestFile } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { nodesNamed } from './sqlParser.js'

/**
 * One file contains all grants, so that a DBA can review them together. Only the installer also grants: it grants roles
 * to logins.
 */
export const grantsOnOnePage: Guardrail = {
  name: 'GRANT and REVOKE are only in schema/v1/011_privileges.sql',
  check: (repository) =>
    repository
      .filter((file) => !isTestFile(file.path) && !GRANTING_FILES.has(file.path))
      .flatMap((file) =>
        sqlOf(file)
          .fragments.filter(({ node }) =>
            ['GrantStmt', 'GrantRoleStmt', 'AlterDefaultPrivilegesStmt'].some(
              (kind) => nodesNamed(node, kind).length > 0,
            ),
          )
          .map(({ line }) => ({
            file: file.path,
            line,
            message: 'GRANT or REVOKE; it belongs in schema/v1/011_privileges.sql (logins: libs/deployment/db.ts)',
          })),
      ),
}

const GRANTING_FILES = new Set(['schema/v1/011_privileges.sql', 'libs/deployment/db.ts'])
