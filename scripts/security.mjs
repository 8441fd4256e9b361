// Runs the security scenarios, which attack a real installation: `npm run security -- --help`.
import { playScorecard } from './scorecard.mjs'

await playScorecard('security')
