// Faults, provoked for real, and what came of them: `npm run chaos -- --help`.
import { playScorecard } from './scorecard.mjs'

await playScorecard('chaos')
