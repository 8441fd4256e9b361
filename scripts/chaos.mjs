// Runs the chaos scenarios, which cause real faults: `npm run chaos -- --help`.
import { runFamily } from './scorecard.mjs'

await runFamily('chaos')
