// Runs the chaos scenarios, which cause real faults: `npm run chaos -- --help`.
import { playScorecard } from './scorecard.mjs'

await playScorecard('chaos')
