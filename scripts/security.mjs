// Runs the security scenarios, which attack a real installation: `npm run security -- --help`.
import { runFamily } from './scorecard.mjs'

await runFamily('security')
