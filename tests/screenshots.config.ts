import { defineConfig } from 'vitest/config'
import suite from '../vitest.config.js'

/** What makes the pictures of the documentation: run by `npm run screenshots`, and no part of the tests. */
export default defineConfig({ test: { ...suite.test, include: ['tests/e2e/screenshots.shots.ts'] } })
