// Attacks, tried for real, and what came of them: `npm run security -- --help`.
import { playScorecard } from './scorecard.mjs'

await playScorecard('security')
