import type { Guardrail } from './guardrail.js'
import { isExample, isProof, isTypeScript } from './repository.js'
import { importsOf } from './typescriptImports.js'

/** A pooled client never leaves libs/db: that is what makes its role and its transaction certain. */
export const driverInDb: Guardrail = {
  name: 'the PostgreSQL driver is imported by libs/db alone',
  check: (repository) =>
    repository
      .filter((file) => isTypeScript(file) && !isProof(file.path) && !isExample(file.path))
      .filter((file) => !file.path.startsWith('libs/db/'))
      .flatMap((file) =>
        importsOf(file)
          .filter(({ specifier }) => DRIVER.test(specifier))
          .map(({ specifier, line }) => ({
            file: file.path,
            line,
            message: `imports the driver "${specifier}"; ask libs/db for a Queryable`,
          })),
      ),
}

const DRIVER = /^(?:@types\/)?(?:pg|postgres)(?:-[a-z-]+)?(?:\/|$)/
