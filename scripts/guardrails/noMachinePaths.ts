import type { Finding, Guardrail } from './guardrail.js'
import type { SourceFile } from './repository.js'

/** Refuses folders of one machine and package registries of one network, which do not exist elsewhere. */
export const noMachinePaths: Guardrail = {
  name: 'no paths of one machine and no private npm registry in any file',
  check: (repository) => repository.flatMap((file) => [...findingsIn(file)]),
}

function* findingsIn(file: SourceFile): Generator<Finding> {
  for (const [index, text] of file.text.split('\n').entries()) {
    const place = { file: file.path, line: index + 1 }
    const folder = MACHINE_FOLDER.exec(text)?.[0]
    if (folder !== undefined) yield { ...place, message: `names the folder ${folder} of one machine` }
    for (const [, host = ''] of text.matchAll(/https?:\/\/([^/\s"'`]+)/g)) {
      if (REGISTRY_HOST.test(host) && host !== PUBLIC_REGISTRY)
        yield { ...place, message: `names the registry ${host}` }
    }
    // npm installs from the URLs in the lock file, so they must be those of the public registry.
    if (
      file.path.endsWith('package-lock.json') &&
      /"resolved": "https?:/.test(text) &&
      !text.includes(`//${PUBLIC_REGISTRY}/`)
    ) {
      yield { ...place, message: 'is locked to an address outside the public registry' }
    }
    if (file.path.endsWith('.npmrc') && /^\s*(?:@[^:]+:)?registry\s*=/.test(text))
      yield { ...place, message: 'sets a registry' }
  }
}

const MACHINE_FOLDER = /(?<![\w.$}*@-])(?:\/(?:root|work|home\/[a-z][\w-]*|Users\/[A-Za-z][\w-]*)\/|[A-Z]:\\+Users\\)/
const REGISTRY_HOST = /registry|artifactory|nexus|verdaccio|jfrog|npm\./i
const PUBLIC_REGISTRY = 'registry.npmjs.org'
